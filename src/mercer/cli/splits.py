"""Which rows a model is trained on and which it is tested on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# Most held-out rows: more would not make the score more precise.
MOST_HELD_OUT = 20_000


class Split(NamedTuple):
    """Row numbers for training and for testing."""

    train: np.ndarray
    test: np.ndarray


def holdout(
    y: np.ndarray,
    task: str,
    share: float,
    random_state: int,
    groups: np.ndarray | None = None,
    times: np.ndarray | None = None,
) -> Split:
    """Hold out a fraction of the rows, stratified by class.

    The only row of a class is a training row. Rows of one group stay on one side; with times, the
    latest rows are held out, and rows of one time stay on one side.
    """
    share = min(share, MOST_HELD_OUT / len(y))
    if times is not None:
        return _latest(times, share)
    if groups is not None:
        return _whole_groups(y, task, share, random_state, groups)
    from sklearn.model_selection import train_test_split

    rows, alone, stratify = np.arange(len(y)), np.array([], dtype=int), None
    if task == "classification":
        _, place, counts = np.unique(y, return_inverse=True, return_counts=True)
        is_alone = counts[place] == 1
        rows, alone = rows[~is_alone], rows[is_alone]
        fits = min(share, 1 - share) * len(rows) >= np.sum(counts > 1)
        stratify = y[rows] if fits else None
    train, test = train_test_split(
        rows, test_size=share, stratify=stratify, random_state=random_state
    )
    return Split(np.concatenate([train, alone]), test)


def folds(
    y: np.ndarray,
    task: str,
    k: int,
    random_state: int,
    groups: np.ndarray | None = None,
    times: np.ndarray | None = None,
) -> list[Split]:
    """Folds of cross-validation; with times, each fold is later than its training rows."""
    from sklearn import model_selection as ms

    if k > len(y):
        raise ValueError(f"--cv {k}: there are only {len(y)} rows")
    if times is not None:
        order = np.argsort(times, kind="stable")
        pairs = ms.TimeSeriesSplit(k).split(order)
        return [Split(order[train], order[test]) for train, test in pairs]
    X, is_classes = np.zeros((len(y), 1)), task == "classification"
    if groups is not None:
        _require_groups(groups, k)
        splitter: Any = (
            ms.StratifiedGroupKFold(k, shuffle=True, random_state=random_state)
            if is_classes
            else ms.GroupKFold(k)
        )
        return [Split(*pair) for pair in splitter.split(X, y, groups)]
    smallest = np.unique(y, return_counts=True)[1].min() if is_classes else 0
    stratified = is_classes and smallest >= k
    splitter = (ms.StratifiedKFold if stratified else ms.KFold)(
        k, shuffle=True, random_state=random_state
    )
    return [Split(*pair) for pair in splitter.split(X, y)]


def _latest(times: np.ndarray, share: float) -> Split:
    order = np.sort(times)
    cut = order[min(int(np.ceil((1 - share) * len(times))), len(times) - 1)]
    is_late = times >= cut
    if is_late.all():
        is_late = times > cut
    if is_late.all() or not is_late.any():
        raise ValueError("--time: all rows have the same time, so none are later than others")
    return Split(np.flatnonzero(~is_late), np.flatnonzero(is_late))


def _whole_groups(
    y: np.ndarray, task: str, share: float, random_state: int, groups: np.ndarray
) -> Split:
    from sklearn.model_selection import GroupShuffleSplit, StratifiedGroupKFold

    parts = max(2, round(1 / share))
    X = np.zeros((len(y), 1))
    if task == "classification" and len(np.unique(groups)) >= parts:
        splitter: Any = StratifiedGroupKFold(parts, shuffle=True, random_state=random_state)
    else:
        _require_groups(groups, 2)
        splitter = GroupShuffleSplit(1, test_size=share, random_state=random_state)
    train, test = next(splitter.split(X, y, groups))
    return Split(train, test)


def _require_groups(groups: np.ndarray, least: int) -> None:
    found = len(np.unique(groups))
    if found < least:
        raise ValueError(f"--group: there are {found} groups; at least {least} are needed")
