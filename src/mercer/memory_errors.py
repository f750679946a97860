"""Errors of memory that say which array had no room, and what to do about it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

# What errors without words say, and how those of NumPy and of the core begin.
BARE = ("", "std::bad_alloc")
BEGINNING = "Unable to allocate"
# Parameters of estimators that less memory may be asked for with.
LESS = {
    "n_components": "a smaller n_components",
    "n_centers": "solver='nystrom' with a smaller n_centers",
    "max_rank": "a smaller max_rank",
    "cache_size": "a smaller cache_size",
    "max_time": "a smaller max_time",
}
ALWAYS = "fewer rows, X in float32, or a smaller sklearn.set_config(working_memory=...)"


def is_bare(error: MemoryError) -> bool:
    """Whether an error of memory comes without advice: from NumPy, the core or Python itself."""
    text = str(error)
    return type(error) is not MemoryError or text in BARE or text.startswith(BEGINNING)


def explained(error: MemoryError, doing: str, advice: str) -> MemoryError:
    """The same error, with what was being done and what to do.

    Examples
    --------
    >>> print(explained(MemoryError("std::bad_alloc"), "SVC.fit of 9 rows", "pass fewer rows"))
    SVC.fit of 9 rows needs more memory than there is; pass fewer rows
    """
    text = str(error)
    array = "" if text in BARE else f": {text[0].lower()}{text[1:]}"
    return MemoryError(f"{doing} needs more memory than there is{array}; {advice}")


def explaining_memory(function: Callable) -> Callable:
    """A method or function of points whose errors of memory name them, and say what to do.

    Errors of ours, which do so already, pass.
    """

    @functools.wraps(function)
    def explaining(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except MemoryError as error:
            if not is_bare(error):
                raise
            raise explained_call(error, function.__name__, arguments, named) from error

    return explaining


def explained_call(error: MemoryError, name: str, arguments: tuple, named: dict) -> MemoryError:
    """The error of a method or function of points, with its name, the points, and what to do."""
    owner: Any = arguments[0] if arguments else None
    points: Any = arguments[1] if len(arguments) > 1 else named.get("X")
    doing = name if owner is None else f"{type(owner).__name__}.{name}"
    shape = getattr(points, "shape", None)
    if shape is not None:
        doing += f" of X of shape ({', '.join(f'{int(s):,}' for s in shape)})"
    elif hasattr(points, "__len__"):
        doing += f" of {len(points):,} objects"
    parameters: dict = getattr(owner, "get_params", lambda **_: {})(deep=False)
    less = [words for parameter, words in LESS.items() if parameters.get(parameter) is not None]
    return explained(error, doing, f"use {', '.join([*less, ALWAYS])}")
