"""Kernel methods: kernels you can combine and prove valid, and estimators that use them."""

from mercer import kernels
from mercer.kernels.checking import check_kernel
from mercer.operators import gram

__all__ = ["check_kernel", "gram", "kernels"]
