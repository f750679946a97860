"""Windows of density estimators and smoothers."""
