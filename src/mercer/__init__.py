"""Kernel methods: kernels you can combine and prove valid, and estimators that use them."""
