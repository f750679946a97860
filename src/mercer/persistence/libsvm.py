"""Model files of LIBSVM: support vector machines as text that many programs read and write.

A file has a header, a line ``SV``, and a line for each support vector: its coefficients, then its
non-zero features as ``index:value``, from index 1. Its functions are f(x) = Σ coef k(x, sv) - rho,
positive for the earlier of two labels. C, nu, epsilon and how the fit went are not in it.
"""

from __future__ import annotations

import os
import re
import warnings
from copy import copy
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from mercer import kernels as K
from mercer.arrays import as_dense, memory_budget, to_cpu
from mercer.estimators import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from mercer.estimators.inputs import is_precomputed
from mercer.estimators.kernel_parameter import NAMES
from mercer.estimators.svm.layout import pairwise_layout
from mercer.estimators.svm.training import sparse_like
from mercer.whole_files import read_regular, write_whole

MACHINES = {
    "c_svc": SVC,
    "nu_svc": NuSVC,
    "one_class": OneClassSVM,
    "epsilon_svr": SVR,
    "nu_svr": NuSVR,
}
CLASSIFIERS = ("c_svc", "nu_svc")
# For each kernel of LIBSVM's, its name and class here, and its parameters.
KERNELS: dict[str, tuple[str, type[K.Kernel], tuple[str, ...]]] = {
    "linear": ("linear", K.Linear, ()),
    "polynomial": ("poly", K.Polynomial, ("degree", "gamma", "coef0")),
    "rbf": ("rbf", K.RBF, ("gamma",)),
    "sigmoid": ("sigmoid", K.Sigmoid, ("gamma", "coef0")),
    "precomputed": ("precomputed", K.Precomputed, ()),
}
# What LIBSVM's own probabilities are made from; mercer's are made otherwise.
PROBABILITIES = ("probA", "probB", "prob_density_marks")
KEYS = {
    *("svm_type", "kernel_type", "degree", "gamma", "coef0"),
    *("nr_class", "total_sv", "rho", "label", "nr_sv"),
    *PROBABILITIES,
}
# One way to read each number, so that a line that is wrong is refused without trying others.
NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
# Indices are kept in 32 bits, and below the width of a matrix that holds them.
LARGEST_INDEX = 2**31 - 2
# Support vectors with a smaller share of non-zero entries stay sparse.
_DENSE_FROM = 0.01


class Written(NamedTuple):
    """What a file says, in its own order of the labels.

    ``coefs`` are (n_SV, k - 1) in LIBSVM's layout, ``counts`` the support vectors of each label;
    ``points`` is a CSR matrix, of one column with the indices for a precomputed kernel.
    """

    header: dict[str, list[str]]
    rho: np.ndarray
    labels: np.ndarray
    counts: np.ndarray
    coefs: np.ndarray
    points: sp.csr_matrix


def read_libsvm(path: str | os.PathLike, *, n_features: int | None = None) -> Any:
    """Read a model file of LIBSVM, as ``svm-train`` and ``svm_save_model`` write it.

    What the file does not hold stays unset: ``dual_gap_``, ``margin_`` and ``result_``; the
    parameters C, nu and epsilon are at their defaults, and ``support_`` counts the support
    vectors of the file unless the kernel is precomputed.

    Parameters
    ----------
    path : str or path
    n_features : int, optional
        How many features points have, where that is more than the largest index in the file,
        which names only those that some support vector has. For a precomputed kernel, the number
        of training points.

    Returns
    -------
    SVC, NuSVC, SVR, NuSVR or OneClassSVM
        Fitted, with ``classes_`` in ascending order. Its values are LIBSVM's, so for two classes
        positive for the later, whichever the file has first; votes that tie go the way of the
        file, as in LIBSVM.

    Raises
    ------
    ValueError
        If the file is not a model of LIBSVM's, or not whole; the message says where.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import mercer, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "line.model")
    >>> with open(path, "w") as file:
    ...     _ = file.write("svm_type c_svc\\nkernel_type linear\\nnr_class 2\\ntotal_sv 2\\n"
    ...                    "rho 0\\nlabel 1 -1\\nnr_sv 1 1\\nSV\\n0.5 1:1\\n-0.5 1:-1\\n")
    >>> mercer.read_libsvm(path).decision_function([[3.0], [-2.0]])
    array([ 3., -2.])
    """
    data = read_regular(path)
    try:
        written = _parsed(data)
        machine = _machine(written, n_features)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{os.fspath(path)} cannot be read as LIBSVM's: {error}") from error
    if any(name in written.header for name in PROBABILITIES):
        warnings.warn(
            f"{os.fspath(path)} has probabilities of LIBSVM's, which are left out; "
            "sklearn.calibration makes new ones",
            stacklevel=2,
        )
    return machine


def write_libsvm(estimator: Any, path: str | os.PathLike) -> None:
    """Write a fitted support vector machine as LIBSVM's programs read it.

    The file appears whole or not at all. Numbers are written so that they are read back to the
    last bit.

    Parameters
    ----------
    estimator : SVC, NuSVC, SVR, NuSVR or OneClassSVM
        With a linear, polynomial, Gaussian, sigmoid or precomputed kernel and labels that are
        whole numbers.
    path : str or path

    Raises
    ------
    TypeError
        If it is another estimator.
    ValueError
        If LIBSVM has no place for its kernel or labels.

    Examples
    --------
    >>> import mercer, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "line.model")
    >>> machine = mercer.SVC(kernel="linear").fit([[-1.0], [1.0]], [3, 7])
    >>> mercer.write_libsvm(machine, path)
    >>> mercer.read_libsvm(path).predict([[-5.0], [5.0]])
    array([3, 7])
    """
    kind = next((name for name, cls in MACHINES.items() if type(estimator) is cls), None)
    if kind is None:
        raise TypeError(
            f"LIBSVM's files hold SVC, NuSVC, SVR, NuSVR and OneClassSVM; got "
            f"{type(estimator).__name__}. Of a pipeline, write the last step and scale the data "
            "before"
        )
    check_is_fitted(estimator)
    estimator = _with_arrays(estimator)
    lines = [f"svm_type {kind}", *_kernel_lines(estimator.kernel_)]
    if kind in CLASSIFIERS:
        labels, coefs, rho = _classifier_parts(estimator)
        lines += [f"nr_class {len(labels)}", f"total_sv {len(coefs)}", f"rho {_row(rho)}"]
        lines += [f"label {_row(labels)}", f"nr_sv {_row(estimator.n_support_)}"]
    else:
        coefs = as_dense(estimator.dual_coef_).T
        lines += ["nr_class 2", f"total_sv {len(coefs)}", f"rho {_row(0.0 - estimator.intercept_)}"]
    lines.append("SV")
    points = _written_points(estimator)
    lines += [f"{_row(row)} {point}" for row, point in zip(coefs, points, strict=True)]
    write_whole(path, ("\n".join(lines) + "\n").encode("ascii"))


def _with_arrays(estimator: Any) -> Any:
    """The same with arrays in place of tensors."""
    other = copy(estimator)
    vars(other).update({name: to_cpu(value) for name, value in vars(estimator).items()})
    return other


# Reading.


def is_libsvm(data: bytes) -> bool:
    """Whether a file that begins like this is a model of LIBSVM's."""
    return data[:8] == b"svm_type"


def _parsed(data: bytes) -> Written:
    if not is_libsvm(data):
        raise ValueError("it does not begin with svm_type")
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not of ASCII text") from error
    header, begin = _header(lines)
    kind, kernel = _one(header, "svm_type"), _one(header, "kernel_type")
    if kind not in MACHINES:
        raise ValueError(f"svm_type {kind!r:.40}; expected one of {', '.join(MACHINES)}")
    if kernel not in KERNELS:
        raise ValueError(f"kernel_type {kernel!r:.40}; expected one of {', '.join(KERNELS)}")
    k = _count(_one(header, "nr_class"), "nr_class")
    total = _count(_one(header, "total_sv"), "total_sv")
    if kind in CLASSIFIERS:
        if k < 2:
            raise ValueError(f"nr_class is {k}; a classifier has at least 2")
        labels = np.array([_label(word) for word in _several(header, "label", k)])
        counts = np.array([_count(word, "nr_sv") for word in _several(header, "nr_sv", k)])
        if len(np.unique(labels)) < k:
            raise ValueError("a label is there twice")
        if counts.sum() != total:
            raise ValueError(f"nr_sv add up to {counts.sum()}, and total_sv is {total}")
    else:
        if k != 2:
            raise ValueError(f"nr_class is {k}; files of {kind} have 2")
        labels, counts = np.zeros(1, dtype=int), np.array([total])
    rows = [(at, line) for at, line in enumerate(lines[begin:], begin + 1) if line.strip()]
    if len(rows) != total:
        raise ValueError(f"it has {len(rows)} support vectors, and total_sv is {total}")
    rho = np.array([_number(w, "rho") for w in _several(header, "rho", k * (k - 1) // 2)])
    coefs, points = _support_vectors(rows, k - 1, kernel == "precomputed")
    return Written(header, rho, labels, counts, coefs, points)


def _header(lines: list[str]) -> tuple[dict[str, list[str]], int]:
    """What is before the line SV, and the number of the line after it."""
    header: dict[str, list[str]] = {}
    for at, line in enumerate(lines, 1):
        words = line.split()
        if words == ["SV"]:
            return header, at
        if not words or words[0] not in KEYS or words[0] in header:
            raise ValueError(f"line {at} is {line!r:.60}; expected a line of the header, or SV")
        header[words[0]] = words[1:]
    raise ValueError("it ends before the line SV")


def _several(header: dict[str, list[str]], name: str, number: int) -> list[str]:
    words = header.get(name, [])
    if len(words) != number:
        raise ValueError(f"{name} has {len(words)} entries; expected {number}")
    return words


def _one(header: dict[str, list[str]], name: str) -> str:
    return _several(header, name, 1)[0]


def _number(word: str, name: str) -> float:
    value = float(word) if re.fullmatch(NUMBER, word) else np.nan
    if not np.isfinite(value):
        raise ValueError(f"{name} is {word!r:.40}; expected a finite number")
    return value


def _count(word: str, name: str) -> int:
    if not re.fullmatch(r"\d{1,10}", word):
        raise ValueError(f"{name} is {word!r:.40}; expected a whole number")
    return int(word)


def _label(word: str) -> int:
    if not re.fullmatch(r"[-+]?\d{1,18}", word):
        raise ValueError(f"a label is {word!r:.40}; expected a whole number")
    return int(word)


def _support_vectors(
    rows: list[tuple[int, str]], width: int, precomputed: bool
) -> tuple[np.ndarray, sp.csr_matrix]:
    """Coefficients, (n_SV, width), and points."""
    line = re.compile(rf"\s*(?:{NUMBER}\s+){{{width}}}(?:\d{{1,10}}:{NUMBER}\s+)*")
    coefs = np.zeros((len(rows), width))
    indices: list[np.ndarray] = []
    values: list[np.ndarray] = []
    for row, (at, text) in enumerate(rows):
        if not line.fullmatch(text + " "):
            raise ValueError(
                f"line {at} is {text!r:.60}; expected {width} coefficients and index:value pairs"
            )
        words = text.replace(":", " ").split()
        coefs[row] = [float(word) for word in words[:width]]
        index = np.array(words[width::2], dtype=np.int64)
        value = np.array([float(word) for word in words[width + 1 :: 2]])
        if precomputed:
            index, value = _serial(index, value, at)
        if np.any(np.diff(index) <= 0) or np.any(index < 1) or np.any(index > LARGEST_INDEX):
            raise ValueError(f"line {at}: indices must ascend, from 1 to {LARGEST_INDEX}")
        indices.append(index - 1)
        values.append(value)
    ends = np.cumsum([0, *map(len, indices)])
    all_values = np.concatenate([*values, np.empty(0)])
    if not (np.all(np.isfinite(all_values)) and np.all(np.isfinite(coefs))):
        raise ValueError("a number is larger than float64 holds")
    columns = np.concatenate([*indices, np.empty(0, dtype=np.int64)])
    shape = (len(rows), int(columns.max(initial=-1)) + 1)
    points = sp.csr_matrix((all_values, columns.astype(np.int32), ends), shape=shape)
    return coefs, points


def _serial(index: np.ndarray, value: np.ndarray, at: int) -> tuple[np.ndarray, np.ndarray]:
    """The number of a training point, ``0:number``, as an index of its own."""
    if not (len(index) and index[0] == 0 and value[0].is_integer() and value[0] >= 1):
        raise ValueError(f"line {at}: expected 0:number, the number of a training point")
    return np.array([min(value[0], LARGEST_INDEX + 1)], dtype=np.int64), np.ones(1)


def _settings(header: dict[str, list[str]], parameters: tuple[str, ...]) -> dict[str, Any]:
    """The kernel's parameters."""
    settings: dict[str, Any] = {name: _number(_one(header, name), name) for name in parameters}
    if settings.get("gamma", 1.0) <= 0:
        raise ValueError(f"gamma is {settings['gamma']}; mercer's kernels have it positive")
    if "degree" in settings:
        settings["degree"] = _count(_one(header, "degree"), "degree")
    return settings


def _machine(written: Written, n_features: int | None) -> Any:
    """The estimator that the file stands for."""
    name, _, parameters = KERNELS[written.header["kernel_type"][0]]
    kind = written.header["svm_type"][0]
    machine = MACHINES[kind](kernel=name, **_settings(written.header, parameters))
    machine.kernel_ = NAMES[name](machine, lambda: machine.gamma)
    points = written.points
    machine.n_features_in_ = max(points.shape[1], n_features or 0, 1)
    points.resize((points.shape[0], machine.n_features_in_))
    if kind in CLASSIFIERS:
        order, dual = _keep_classes(machine, written)
        points = points[order]
    else:
        dual, machine.intercept_ = written.coefs.T, 0.0 - written.rho
        machine.n_support_ = written.counts.astype(np.int32)
    if kind == "one_class":
        machine.offset_ = written.rho
    if is_precomputed(name):
        machine.support_, machine.support_vectors_ = points.indices, np.empty((0, 0))
    else:
        machine.support_ = np.arange(points.shape[0], dtype=np.int32)
        machine.support_vectors_ = _dense_if_fit(points)
    machine.dual_coef_ = sparse_like(machine.support_vectors_, dual)
    return machine


def _keep_classes(machine: Any, written: Written) -> tuple[np.ndarray, np.ndarray]:
    """Set what classifiers have, classes ascending; give the order of points, and ``dual_coef_``.

    For two classes f is positive for the later.
    """
    k, place = len(written.labels), np.argsort(np.argsort(written.labels))
    codes = np.repeat(place, written.counts)
    order = np.argsort(codes, kind="stable")
    theirs = _pairs(written.coefs, np.repeat(np.arange(k), written.counts))
    columns = {pair: column for column, pair in enumerate(combinations(range(k), 2))}
    file_place = np.argsort(place)
    pairs, intercepts = np.zeros_like(theirs), np.zeros(len(columns))
    for (i, j), column in columns.items():
        first, second = int(file_place[i]), int(file_place[j])
        sign = 1.0 if (first < second) == (k > 2) else -1.0
        their = columns[min(first, second), max(first, second)]
        # Adding zero turns a flipped zero into a positive one.
        pairs[:, column] = sign * theirs[order, their] + 0.0
        intercepts[column] = 0.0 - sign * written.rho[their]
    machine.classes_ = np.sort(written.labels)
    machine.class_weight_ = np.ones(k)
    machine.tie_order_ = place
    machine.n_support_ = written.counts[file_place].astype(np.int32)
    machine.pair_coef_, machine.intercept_ = pairs, intercepts
    return order, pairs.T if k == 2 else pairwise_layout(pairs, codes[order], k)


def _pairs(coefs: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """From LIBSVM's layout, (n_SV, k - 1), to a column for each pair of classes."""
    k = coefs.shape[1] + 1
    pairs = np.zeros((len(codes), k * (k - 1) // 2))
    for column, (i, j) in enumerate(combinations(range(k), 2)):
        pairs[codes == i, column] = coefs[codes == i, j - 1]
        pairs[codes == j, column] = coefs[codes == j, i]
    return pairs


def _dense_if_fit(points: sp.csr_matrix) -> Any:
    n, d = points.shape
    fit = 8 * n * d <= memory_budget() and points.nnz >= _DENSE_FROM * n * d
    return points.toarray() if fit else points


# Writing.


def _row(numbers: Any) -> str:
    return " ".join(map(repr, np.atleast_1d(numbers).tolist()))


def _kernel_lines(kernel: K.Kernel) -> list[str]:
    for name, (_, cls, parameters) in KERNELS.items():
        if type(kernel) is cls and getattr(kernel, "scales", None) is None:
            values = [f"{p} {_row(getattr(kernel, p))}" for p in parameters]
            return [f"kernel_type {name}", *values]
    raise ValueError(
        f"LIBSVM has no kernel {kernel!r}; its own are {', '.join(KERNELS)}. Keep the model with "
        "mercer.save, or fit with a precomputed kernel"
    )


def _classifier_parts(machine: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, coefficients in LIBSVM's layout, (n_SV, k - 1), and rho."""
    labels = machine.classes_
    if labels.dtype.kind not in "biuf" or np.any(labels.astype(np.int32) != labels):
        raise ValueError(
            f"the labels are {labels.tolist()!r:.80}; LIBSVM's are whole numbers: number them, for "
            "example with sklearn.preprocessing.LabelEncoder"
        )
    if len(labels) == 2:
        return labels.astype(np.int32), 0.0 - machine.pair_coef_, machine.intercept_
    coefs = as_dense(machine.dual_coef_).T
    codes = np.repeat(np.arange(len(labels)), machine.n_support_)
    if np.any(_pairs(coefs, codes) != machine.pair_coef_):
        raise ValueError(
            f"LIBSVM's layout has no room for a kernel corrected by indefinite="
            f"{machine.indefinite!r} with more than two classes; keep the model with mercer.save"
        )
    return labels.astype(np.int32), coefs, 0.0 - machine.intercept_


def _written_points(machine: Any) -> list[str]:
    """Support vectors as ``index:value``, or ``0:number`` of precomputed ones."""
    if is_precomputed(machine.kernel):
        return [f"0:{index + 1}" for index in machine.support_.tolist()]
    points = sp.csr_matrix(machine.support_vectors_)
    points.sort_indices()
    indices, values = points.indices.tolist(), points.data.tolist()
    return [
        " ".join(f"{indices[at] + 1}:{values[at]!r}" for at in range(begin, end))
        for begin, end in pairwise(points.indptr)
    ]
