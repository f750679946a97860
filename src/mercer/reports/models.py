"""Facts of a fitted model: its kernel and proof, its scales, its size, its certificate."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import n_rows, take_rows
from mercer.kernels import Kernel, Precomputed
from mercer.kernels.formulas import mathml
from mercer.reports.summaries import shortened
from mercer.tables.kinds import described as described_columns

# Rows of the Gram matrix whose spectrum is shown, and columns whose scales are.
SPECTRUM_ROWS = 300
MOST_SCALES = 60


def final_estimator(model: Any) -> Any:
    """The last step of a pipeline, or the model inside an automatic one."""
    model = model[-1] if hasattr(model, "steps") else model
    return getattr(model, "model_", model)


def described(model: Any) -> dict[str, Any]:
    """The model and its kernel, in types that JSON can hold."""
    inner = final_estimator(model)
    inside = "" if inner is model else f": {type(inner).__name__}"
    found: dict[str, Any] = {"model": type(model).__name__ + inside}
    kernel = getattr(model, "kernel_", getattr(inner, "kernel_", None))
    if isinstance(kernel, Kernel):
        validity = kernel.validity
        found["kernel"] = repr(kernel)
        found["formula"] = mathml(kernel)
        found["kernel is"] = validity.status
        found["proof"] = str(validity.proof or validity.counterexample or validity.reason)
        if validity.proof is not None:
            found["proof tree"] = _tree(validity.proof)
        found["scales"] = relevances(model, kernel)
    if hasattr(inner, "support_"):
        found["size"] = {"name": "support vectors", "value": len(inner.support_)}
    elif hasattr(inner, "dual_coef_"):
        name = "centres" if getattr(inner, "solver", None) == "nystrom" else "points"
        found["size"] = {"name": name, "value": int(np.shape(inner.dual_coef_)[0])}
    result = getattr(inner, "result_", None)
    if result is not None:
        found["certificate"] = {
            "status": result.status.name.lower(),
            "gap": float(result.gap),
            "message": result.message,
            "gaps": [float(gap) for gap in result.history][-200:],
        }
    found["spectrum"] = spectrum(model)
    return found


def _tree(proof: Any) -> dict[str, Any]:
    """A proof as claims, rules and premises."""
    premises = [_tree(premise) for premise in proof.premises]
    return {"claim": shortened(proof.claim), "rule": proof.rule, "premises": premises}


def relevances(model: Any, kernel: Kernel) -> dict[str, float] | None:
    """The largest 1 / scale of the coordinates of each column; None without scales."""
    scales = None
    for name, value in kernel.get_params(deep=True).items():
        if name.rpartition("__")[2] == "scales" and value is not None:
            scales = np.asarray(value, dtype=float).ravel()
            break
    if scales is None or len(scales) < 2:
        return None
    owners = getattr(getattr(model, "coding_", None), "owners_", None)
    if owners is None or len(owners) != len(scales):
        owners = np.arange(len(scales))
    names = getattr(model, "feature_names_in_", None)
    found: dict[str, float] = {}
    for owner, scale in zip(owners.tolist(), scales.tolist(), strict=True):
        name = f"column {owner}" if names is None else str(names[owner])
        found[name] = max(found.get(name, 0.0), 1 / scale if scale else 0.0)
    most = max(found.values()) or 1.0
    ordered = sorted(found.items(), key=lambda item: -item[1])[:MOST_SCALES]
    return {name: value / most for name, value in ordered}


SORTS = {
    "value": "value",
    "rank": "rank",
    "missing": "flag for missing values",
    "level": "indicators of {} categories",
    "mean": "target mean of the category",
    "frequency": "frequency of the category",
}


def uses(coding: Any, n_columns: int) -> list[str] | None:
    """What a model makes of each column, in words; None if its coding does not say."""
    sorts, owners = getattr(coding, "sorts_", None), getattr(coding, "owners_", None)
    if sorts is None or owners is None:
        return None
    found = []
    for k in range(n_columns):
        own = [sort for sort, owner in zip(sorts, owners.tolist(), strict=True) if owner == k]
        words = [str(SORTS.get(s) or s).format(own.count(s)) for s in dict.fromkeys(own)]
        if k in coding.texts_:
            words.append("text, by a kernel on sequences")
        if k in coding.identifiers_:
            words = [f"left out: {coding.identifiers_[k]}"]
        found.append(", ".join(words) or "left out: it has one value only")
    return found


def profile(model: Any, X: Any, kinds: list[str]) -> list[dict[str, Any]]:
    """The columns of a table as they were read, and what the model makes of each."""
    rows = described_columns(X, kinds)
    used = uses(getattr(model, "coding_", None), len(rows))
    if used is not None:
        rows = [{**row, "used as": words} for row, words in zip(rows, used, strict=True)]
    return rows


def spectrum(model: Any) -> list[float] | None:
    """Eigenvalues of a Gram matrix of at most 300 training points, as shares of their sum."""
    fitted = final_estimator(model)
    points = getattr(fitted, "X_fit_", getattr(fitted, "support_vectors_", None))
    kernel = getattr(fitted, "kernel_", None)
    if points is None or not isinstance(kernel, Kernel) or isinstance(kernel, Precomputed):
        return None
    n = n_rows(points)
    if not n:
        return None
    some = np.unique(np.linspace(0, n - 1, min(n, SPECTRUM_ROWS)).astype(int))
    values = np.linalg.eigvalsh(np.asarray(kernel(take_rows(points, some)), dtype=float))[::-1]
    values = np.maximum(values, 0)
    return (values / values.sum()).tolist() if values.sum() > 0 else None
