"""Warnings that point at the line of the user."""

from __future__ import annotations

import sys
import warnings

# Packages that call an estimator's fit on behalf of the user.
BETWEEN = {"mercer", "sklearn", "joblib", "torch"}


def warn_the_caller(message: str, category: type[Warning]) -> None:
    """Warn, and point at the user's own line, however many calls lie between."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
