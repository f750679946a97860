"""Density estimates of numeric columns."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import mercer
from mercer.estimators.smoothing.bandwidth_rules import RULES
from mercer.kernels.smoothing.windows import SMOOTHING_KERNELS
from mercer.tables.data import Data, counted, listed, refuse_repeated, suggested
from mercer.tables.kinds import nonnumbers

# Grid points per axis of the plot, for one column and for two.
GRID = {1: 200, 2: 60}
SHOWN_POINTS = 500
# A rounding step of more than this multiple of Scott's bandwidth is coarse.
COARSE = 1.0


def estimate(
    data: Data, columns: list[str] | None, bandwidth: str | None, kernel: str
) -> tuple[Any, np.ndarray, list[str], dict[str, Any]]:
    """A fitted density, the points, the names of their columns, and a summary.

    Parameters
    ----------
    data : Data
    columns : list of str or None
        By name or position; all numeric columns by default.
    bandwidth : str or None
        A number, or a rule of `KernelDensity`.
    kernel : str
    """
    began = time.perf_counter()
    if kernel not in SMOOTHING_KERNELS:
        raise ValueError(f"--kernel {kernel}: {suggested(kernel, sorted(SMOOTHING_KERNELS))}")
    X, names, missing = _numbers(data, columns)
    described = [_described(data, name, x) for name, x in zip(names, X.T, strict=True)]
    chosen = _bandwidth(bandwidth, X.shape[1])
    same = np.flatnonzero(X.min(axis=0) == X.max(axis=0))
    if len(same) and isinstance(chosen, str):
        k = same[0]
        raise ValueError(
            f"column {names[k]!r} of {data.source} is {described[k]['holds'].split(' to ')[0]} "
            "throughout; choose others with --column, or give --bandwidth as a number"
        )
    density = mercer.KernelDensity(kernel=kernel, bandwidth=chosen)
    by = str(bandwidth or chosen)
    try:
        density.fit(X)
    except ValueError:
        if bandwidth is not None:
            raise
        density.set_params(bandwidth="scott").fit(X)
        by = f"scott, since {chosen} finds no bandwidth for these rows"
    density, advice = _spread_over_steps(density, X, names, chosen)
    fitted = time.perf_counter() - began
    likelihood = _log_likelihood(density, X)
    summary = {
        "kind": "density",
        "data": data.source,
        "rows": len(X),
        "columns": described,
        "left out": {
            **(data.left_out or {}),
            **({"rows": f"{missing} have missing values"} if missing else {}),
        },
        "read as": _read_as(data, described, X),
        "model": f"KernelDensity, {kernel}",
        "bandwidth": f"{_written(density.bandwidth_)} ({by})",
        "seconds": {"training": fitted, "all": time.perf_counter() - began},
        "grid": _grid(density, X, names),
        "advice": advice,
        "mercer": mercer.__version__,
    }
    if likelihood is not None:
        summary["log-likelihood"] = likelihood
    return density, X, names, summary


def rounding_step(x: np.ndarray) -> float:
    """The step that all differences of the values are multiples of; 0 if most values differ.

    Examples
    --------
    >>> rounding_step(np.array([30.0, 35.0, 35.0, 50.0, 30.0, 35.0]))
    5.0
    """
    values = np.unique(x)
    if len(values) < 2 or 2 * len(values) > len(x):
        return 0.0
    gaps = np.diff(values)
    multiples = gaps / gaps.min()
    tolerance = 1e-6 + 1e-12 * np.abs(values).max() / gaps.min()
    return float(gaps.min()) if np.all(np.abs(multiples - np.round(multiples)) < tolerance) else 0.0


def _spread_over_steps(
    density: Any, X: np.ndarray, names: list[str], bandwidth: Any
) -> tuple[Any, list[str]]:
    """The density with a bandwidth that does not resolve the rounding of the values.

    A rule that sees many equal values takes them for peaks, or loses the scale of the data. Where
    the steps are not small compared with Scott's bandwidth, it is applied to values spread
    uniformly over their steps, and half a step is the least: the ripple of equal Gaussians at
    steps s is 2 exp(-2 pi^2 h^2 / s^2), 1.4 % then.
    """
    steps = np.array([rounding_step(x) for x in X.T])
    if isinstance(bandwidth, str):
        n, d = X.shape
        is_coarse = steps > COARSE * X.std(axis=0) * n ** (-1 / (d + 4))
    else:
        is_coarse = steps > _widths(density)
    if not is_coarse.any():
        return density, []
    words = listed([f"{names[k]} (steps of {steps[k]:g})" for k in np.flatnonzero(is_coarse)])
    if not isinstance(bandwidth, str):
        line = f"the bandwidth is below the rounding step of {words}: the peaks are of the rounding"
        return density, [line]
    rng = np.random.default_rng(0)
    spread = X + np.where(steps > 0, steps, 0.0) * rng.uniform(-0.5, 0.5, size=X.shape)
    found = mercer.KernelDensity(kernel=density.kernel, bandwidth=density.bandwidth).fit(spread)
    least = steps / 2
    wide: Any
    if np.ndim(found.bandwidth_) == 2:
        short = np.maximum(least**2 - np.diagonal(found.bandwidth_), 0)
        wide = found.bandwidth_ + np.diag(short)
    else:
        wide = np.maximum(found.bandwidth_, least)
        wide = float(wide[0]) if np.ndim(found.bandwidth_) == 0 and len(wide) == 1 else wide
    density = mercer.KernelDensity(kernel=density.kernel, bandwidth=wide).fit(X)
    line = f"values are rounded: {words}; the bandwidth is that of values spread over their steps"
    return density, [line]


def _widths(density: Any) -> np.ndarray:
    """The bandwidth of each column."""
    H = np.asarray(density.bandwidth_, dtype=float)
    return np.sqrt(np.diagonal(H)) if H.ndim == 2 else H


def _log_likelihood(density: Any, X: np.ndarray) -> float | None:
    """Per row, by five-fold cross-validation; None if a fold has too few distinct rows.

    The relative tolerance of 1e-4 saves most of the time with very many rows.
    """
    from sklearn.base import clone
    from sklearn.model_selection import KFold, cross_val_score

    if len(X) < 10:
        return None
    folds = KFold(5, shuffle=True, random_state=0)
    try:
        near = clone(density).set_params(rtol=1e-4)
        scores = cross_val_score(near, X, cv=folds, error_score="raise")
    except ValueError:  # the rule finds no bandwidth
        return None
    return float(scores.sum() / len(X))


def _numbers(data: Data, columns: list[str] | None) -> tuple[np.ndarray, list[str], int]:
    if isinstance(data.X, list):
        raise ValueError(f"{data.source} holds graphs; a density needs numbers")
    if data.columns is None:
        X, names = _arrays(data, columns)
        columns = names if hasattr(data.X, "tocsc") else columns
    else:
        frame = data.X.copy(deep=False)
        for k, name in enumerate(data.columns):
            if _holds_days(data, name):
                frame.isetitem(k, _day_numbers(data.X[name]))
        frame = frame.select_dtypes("number")
        frame = frame if columns else frame.dropna(axis="columns", how="all")
        names, X = [str(name) for name in frame.columns], frame.to_numpy(dtype=np.float64)
    every = data.columns or names
    known, places = set(every), {name: k for k, name in enumerate(names)}
    refuse_repeated(data, known.intersection(columns or ()))
    chosen = []
    for column in columns or names:
        name = column
        if column not in known and column.isdecimal() and int(column) < len(every):
            name = every[int(column)]
        if name not in places:
            there = data.columns is not None and name in known
            words = nonnumbers(data.X[name]) if there else []
            held = f": {name} holds {words[0]!r}" if words else ""
            others = f"there are {listed(names)}" if there else suggested(column, names)
            raise ValueError(
                f"--column {column}: {data.source} has no such numeric column{held}; {others}"
            )
        chosen.append(places[name])
    if not chosen:
        raise ValueError(f"{data.source} has no numeric column")
    X = np.asarray(X[:, chosen], dtype=np.float64)
    kept = np.all(np.isfinite(X), axis=1)
    if kept.sum() < 2:
        rows = counted(kept.sum(), "complete row")
        raise ValueError(f"{data.source} has {rows}; at least 2 are needed")
    return X[kept], [names[k] for k in chosen], int((~kept).sum())


def _arrays(data: Data, columns: list[str] | None) -> tuple[np.ndarray, list[str]]:
    """Columns without names; of sparse data, the chosen ones."""
    if not hasattr(data.X, "tocsc"):
        return np.asarray(data.X), [f"column {k}" for k in range(data.width)]
    if not columns:
        raise ValueError(
            f"{data.source} has {data.width:,} columns, mostly zeros, too many for a density; "
            "choose some with --column"
        )
    places = [name.removeprefix("column ") for name in columns]
    wrong = [name for name in places if not name.isdecimal() or int(name) >= data.width]
    if wrong:
        raise ValueError(
            f"--column {wrong[0]}: {data.source} has no such column; there are 0 to "
            f"{data.width - 1}"
        )
    return data.X[:, [int(k) for k in places]].toarray(), [f"column {k}" for k in places]


def rows(X: np.ndarray, names: list[str], summary: dict[str, Any]) -> dict[str, np.ndarray]:
    """The columns of X by name, with dates as text."""
    kinds = [column["kind"] for column in summary["columns"]]
    return {
        name: _written_days(x) if kind == "day" else x
        for name, x, kind in zip(names, X.T, kinds, strict=True)
    }


def _holds_days(data: Data, name: str) -> bool:
    is_there = hasattr(data.X, "columns") and name in data.X.columns
    return is_there and data.X[name].dtype.kind == "M"


def _day_numbers(times: Any) -> Any:
    """Days since 1970-01-01."""
    import pandas

    began = pandas.Timestamp(0, tz=times.dt.tz)
    return (times - began) / pandas.Timedelta(days=1)


def _written_days(numbers: np.ndarray) -> np.ndarray:
    """Dates as text, with the time of day if any is not midnight."""
    import pandas

    times = pandas.to_datetime(pandas.Series(numbers), unit="D").dt.round("s")
    hour = "" if (times == times.dt.normalize()).all() else " %H:%M:%S"
    return times.dt.strftime(f"%Y-%m-%d{hour}").to_numpy(dtype=str)


def _described(data: Data, name: str, x: np.ndarray) -> dict[str, str]:
    ends = np.array([x.min(), x.max()])
    if _holds_days(data, name):
        return {"name": name, "kind": "day", "holds": " to ".join(_written_days(ends))}
    return {"name": name, "kind": "number", "holds": f"{ends[0]:g} to {ends[1]:g}"}


def _read_as(data: Data, described: list[dict[str, str]], X: np.ndarray) -> dict[str, str]:
    """How dates and marked numbers were read."""
    found = {}
    for column, x in zip(described, X.T, strict=True):
        name = column["name"]
        if column["kind"] == "day":
            found[name] = f"{_written_days(x[:1])[0]} as {x[0]:g}, days since 1970-01-01"
        elif name in data.read_as:
            found[name] = data.read_as[name]
    return found


def _bandwidth(text: str | None, d: int) -> Any:
    if text is None:
        return "isj" if d == 1 else "plugin" if d <= 3 else "scott"
    if text in RULES:
        return text
    try:
        h = float(text)
    except ValueError:
        raise ValueError(f"--bandwidth {text}: {suggested(text, sorted(RULES))}") from None
    if not 0 < h < np.inf:
        raise ValueError(f"--bandwidth {text}: expected a number above 0, or {listed(list(RULES))}")
    return h


def _written(bandwidth: Any) -> str:
    if np.ndim(bandwidth):
        return f"[{', '.join(map(_written, bandwidth))}]"
    return f"{bandwidth:.4g}"


def _grid(density: Any, X: np.ndarray, names: list[str]) -> dict[str, Any] | None:
    d = X.shape[1]
    if d not in GRID:
        return None
    spread = np.ptp(X, axis=0)
    margins = np.where(spread > 0, 0.15 * spread, 3 * np.max(density.bandwidth_))
    axes = [
        np.linspace(x.min() - margin, x.max() + margin, GRID[d])
        for x, margin in zip(X.T, margins, strict=True)
    ]
    at = np.stack([mesh.ravel() for mesh in np.meshgrid(*axes, indexing="ij")], axis=1)
    some = X[np.random.default_rng(0).permutation(len(X))[:SHOWN_POINTS]]
    return {
        "axes": {name: axis.tolist() for name, axis in zip(names, axes, strict=True)},
        "density": density.pdf(at).reshape([GRID[d]] * d).tolist(),
        "points": some.T.tolist(),
    }
