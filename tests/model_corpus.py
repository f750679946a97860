"""Model files of each format, with queries and the predictions of the day they were written.

``python tests/model_corpus.py`` adds new models to those of today's format in
``tests/persistence/corpus/format-N``. Files of earlier formats are never written again: tests load
them with each later version of the library.
"""

from __future__ import annotations

import io
import json
import math
import tempfile
import warnings
import zipfile
from pathlib import Path

import networkx
import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    HuberRegressor,
    Lasso,
    LassoCV,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    QuantileRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold, LeaveOneOut, StratifiedKFold
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC, LinearSVR

import mercer
import model_zoo
from mercer import kernels as K
from mercer.auto import BoostedPartitions, LeaveOneOutStacking, RecursiveFeatureMachine
from mercer.estimators.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Logistic,
    Loss,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from mercer.kernels.smoothing.windows import BallPower
from mercer.operators.gram import DenseGram
from mercer.solvers.risk.softmax import Softmax
from model_zoo import IRIS, SPECIES, X_REG, Y_REG
from naive_kernels import all_cases, graphs, points, trees

FOLDER = Path(__file__).parent / "persistence" / "corpus"
LINEAR = [
    BayesianRidge(),
    ElasticNet(alpha=0.01),
    ElasticNetCV(cv=3, n_jobs=1),
    HuberRegressor(),
    Lasso(alpha=0.01),
    LassoCV(cv=3),
    LinearRegression(),
    LinearSVC(),
    LinearSVR(),
    LogisticRegression(),
    LogisticRegressionCV(cv=3),
    QuantileRegressor(alpha=0.01),
    Ridge(),
    RidgeCV(),
    RidgeClassifier(),
    RidgeClassifierCV(),
]


# What users wrote, which files name and tests give again.


def gauss(x, z):
    return float(np.exp(-np.sum((x - z) ** 2)))


def bump(u):
    return 0.5 * np.exp(-np.abs(u[..., 0]))


def first_two(X):
    return X[:, :2]


def scaled(x, z, c):
    return c * float(x @ z)


class Labelled(list):
    """A tree as nltk has it: a list of children with a label."""

    def __init__(self, label, children):
        super().__init__(children)
        self._label = label

    def label(self):
        return self._label


class Cubic(Loss):
    def __init__(self, weight=1.0):
        self.weight = weight

    def value(self, y, f):
        return self.weight * float(np.sum(np.abs(y - f) ** 3))

    def gradient(self, y, f):
        return self.weight * 3 * (f - y) * np.abs(f - y)


FUNCTIONS = {
    **model_zoo.FUNCTIONS,
    "Cubic": Cubic(2.0),
    "bump": bump,
    "first_two": first_two,
    "gauss": gauss,
    "rbf_kernel": rbf_kernel,
    "scaled": scaled,
}


# Models and their queries.


def on_kernels():
    """Kernel ridge on every kernel, and support vector machines where points are objects."""
    rng = np.random.default_rng(0)
    for i, kernel in enumerate(all_cases()):
        P, new = points(kernel, 24, rng), points(kernel, 4, rng)
        y = np.array([0.5, 1.0, -1.0] * 8)
        ridge = mercer.KernelRidge(alpha=0.1, kernel=kernel, indefinite="clip")
        yield f"ridge on kernel {i}", ridge.fit(P, y), new
        if not isinstance(P, np.ndarray):
            machine = mercer.SVC(kernel=kernel, indefinite="clip")
            yield f"svc on kernel {i}", machine.fit(P, y > 0), new
        yield f"kernel {i}", kernel, new


def on_data():
    """Every estimator that takes a kernel, on numbers; some on all kinds of data."""
    for name in model_zoo.KERNEL_ESTIMATORS:
        for label, model, new in model_zoo.kernel_models(name):
            if label.startswith("on "):
                break
            if (name, label) == ("KernelPCA", "precomputed"):  # whose matrix is large
                continue
            if label == "numbers" or name in ("SVC", "KernelRidge", "KernelPCA"):
                yield f"{name} {label}", model, new


def composites():
    rescaled = K.exp(1.0 * K.Linear()).rescale(K.exp(-0.5 * K.sqnorm) / (1 + K.sqnorm) ** 2)
    new = np.random.default_rng(1).normal(size=(4, 3))
    for i, kernel in enumerate(
        [
            2 * K.RBF(0.3) - K.RBF(0.4) * K.Polynomial(2) ** 3 / 7,
            (K.RBF() + 1).normalize().on([0, 2]),
            rescaled,
            sum(K.RBF(0.1).on([j % 3]) for j in range(20)),
            K.RBF().compose(first_two),
        ]
    ):
        yield f"composite {i}", kernel, new


def losses():
    X, y = X_REG, Y_REG
    for loss in ("squared", "absolute", "epsilon_insensitive", "huber", "quantile", "poisson"):
        target = np.abs(np.round(3 * y)) if loss == "poisson" else y
        yield f"loss {loss}", mercer.KernelMachineRegressor(loss=loss).fit(X, target), X[::9] + 0.1
    for loss in ("hinge", "squared_hinge", "logistic"):
        machine = mercer.KernelMachineClassifier(loss=loss, n_centers=8)
        yield f"loss {loss}", machine.fit(X, y > 0), X[::9] + 0.1
    for loss in (Absolute(), EpsilonInsensitive(0.2), Poisson(), Quantile(0.3), Squared()):
        target = np.abs(y) if isinstance(loss, Poisson) else y
        name = type(loss).__name__
        yield f"given {name}", mercer.KernelMachineRegressor(loss=loss).fit(X, target), X[::9] + 0.1
    for loss in (Hinge(), SquaredHinge(), Logistic()):
        name = type(loss).__name__
        yield f"given {name}", mercer.KernelMachineClassifier(loss=loss).fit(X, y > 0), X[::9]
    parametrised = mercer.KernelPCA(kernel=scaled, kernel_params={"c": 2.0}, n_components=2)
    yield "own with parameters", parametrised.fit(X[::3]), X[::9]
    mapped = K.Polynomial(2).compose(first_two).feature_map()
    yield "features of own map", mapped.fit(X), X[::9]
    yield "own loss", mercer.KernelMachineRegressor(loss=Cubic(2.0)).fit(X, y), X[::9]
    yield "own kernel", mercer.KernelRidge(kernel=gauss).fit(X, y), X[::9]
    yield "own map", mercer.KernelRidge(kernel=K.RBF().compose(first_two)).fit(X, y), X[::9]
    yield "own density", mercer.KernelDensity(kernel=bump).fit(X[:, :1]), X[::9, :1]
    yield "their kernel", mercer.SVC(kernel=rbf_kernel).fit(IRIS, SPECIES), IRIS[::19]
    chi = mercer.KernelRidge(kernel="additive_chi2", indefinite="flip")
    yield "named function", chi.fit(np.abs(IRIS), SPECIES), np.abs(IRIS[::19])


def objects():
    """Graphs and trees of other libraries, and as the kernels keep them."""
    rng = np.random.default_rng(0)
    given = graphs(rng, 12)
    theirs = []
    for graph in given:
        made = networkx.Graph(graph["edges"])
        made.add_nodes_from(range(len(graph["node_labels"])))
        networkx.set_node_attributes(made, dict(enumerate(graph["node_labels"])), "label")
        theirs.append(made)
    ridge = mercer.KernelRidge(kernel=K.WeisfeilerLehman(2))
    yield "networkx", ridge.fit(theirs, np.arange(12.0)), given[:4]
    read = mercer.KernelRidge(kernel=K.ShortestPath())
    kept = K.WeisfeilerLehman(2).parse_objects(given)
    yield "graphs", read.fit(kept, np.arange(12.0)), given[:4]
    grown = trees(rng, 6)
    lists = [Labelled("S", [Labelled("A", ["x"]), Labelled(label, ["y"])]) for label in "ABABAA"]
    ridge = mercer.KernelRidge(kernel=K.SubsetTree())
    yield "nltk", ridge.fit(lists, np.arange(6.0)), grown
    ridge = mercer.KernelRidge(kernel=K.SubsetTree())
    yield "trees", ridge.fit([K.Tree.parse(tree) for tree in grown], np.arange(6.0)), grown


def pipelines():
    rng = np.random.default_rng(0)
    X, y = X_REG, Y_REG
    table = pd.DataFrame(
        {"a": rng.normal(size=60), "b": ["x", "y", "z"] * 20, "c": np.arange(60.0)}
    )
    table.loc[3, "a"] = np.nan
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["a"]),
            ("kinds", OneHotEncoder(handle_unknown="ignore"), ["b"]),
            ("others", "passthrough", ["c"]),
            ("orders", OrdinalEncoder(), ["b"]),
        ]
    )
    labels = np.array(["no", "yes"] * 30)
    yield "columns", make_pipeline(columns, mercer.SVC()).fit(table, labels), table[::9]
    for scaler in (MaxAbsScaler(), MinMaxScaler(), Normalizer(), RobustScaler(), StandardScaler()):
        name = type(scaler).__name__
        yield name, make_pipeline(scaler, mercer.KernelRidge()).fit(X, y), X[::9] + 0.1
    union = FeatureUnion([("s", StandardScaler()), ("m", MinMaxScaler())])
    yield "union", make_pipeline(union, mercer.SVR()).fit(X, y), X[::9] + 0.1
    target = TransformedTargetRegressor(mercer.KernelRidge(), transformer=StandardScaler())
    yield "target", make_pipeline(StandardScaler(), target).fit(X, y), X[::9] + 0.1
    calibrated = CalibratedClassifierCV(mercer.SVC(), ensemble=False)
    piped = make_pipeline(StandardScaler(), calibrated)
    yield "calibrated", piped.fit(IRIS, SPECIES), IRIS[::19]
    for cv in (KFold(3), LeaveOneOut(), "gcv"):
        yield f"ridge by {cv}", mercer.KernelRidgeCV(cv=cv).fit(X, y), X[::9] + 0.1
    yield "by strata", make_pipeline(mercer.KernelRidgeCV(cv=StratifiedKFold(4))), None
    for linear in LINEAR:
        labels = SPECIES if is_classifier(linear) else np.arange(len(IRIS)) / 50
        piped = make_pipeline(K.RBF(0.1).approximate_map(10), linear)
        yield f"linear {type(linear).__name__}", piped.fit(IRIS, labels), IRIS[::19]
    for mapped in (Nystroem(n_components=9, random_state=0), RBFSampler(random_state=0)):
        piped = make_pipeline(mapped, Ridge())
        yield f"map {type(mapped).__name__}", piped.fit(X, y), X[::9] + 0.1
    framed = make_pipeline(StandardScaler(), mercer.KernelPCA(n_components=2))
    yield "frames", framed.set_output(transform="default").fit(X), X[::9] + 0.1


def automatic():
    rng = np.random.default_rng(0)
    n = 60
    table = pd.DataFrame(
        {
            "word": model_zoo.words(rng, n),
            "size": rng.normal(size=n),
            "kind": pd.Categorical(["u", "v"] * (n // 2)),
            "day": pd.date_range("2024-01-01", periods=n, freq="D"),
            "written": [f"2024-02-{1 + i % 28:02d}" for i in range(n)],
        }
    )
    table.loc[3, "size"] = np.nan
    y = np.sin(np.arange(n) / 9.0)
    yield "auto numbers", mercer.AutoKernelRegressor().fit(table, y), table[::9]
    labels = np.array(["no", "yes", "yes"] * (n // 3))
    yield "auto classes", mercer.AutoKernelClassifier().fit(table, labels), table[::9]
    given = graphs(rng, 24)
    yield "auto graphs", mercer.AutoKernelClassifier().fit(given, [0, 1] * 12), given[:4]
    sparse = sp.csr_array(rng.normal(size=(n, 1200)) * (rng.random((n, 1200)) < 0.01))
    yield "auto sparse", mercer.AutoKernelRegressor().fit(sparse, y), sparse[::9]


def coordinates():
    """Automatic models of tables whose categories have means of targets."""
    rng = np.random.default_rng(1)
    n = 60
    table = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "kind": rng.choice(list("abcdef"), n),
            "flag": rng.choice(["no", "yes"], n),
        }
    )
    table.loc[::7, "size"] = np.nan
    y = np.exp(np.sin(3 * table["size"].fillna(2.0)) + (table["kind"] < "c"))
    yield "coordinates numbers", mercer.AutoKernelRegressor().fit(table, y), table[::9]
    for classes in (2, 3):
        labels = np.digitize(y, [1.0, 2.0][: classes - 1])
        model = mercer.AutoKernelClassifier(metric="balanced_accuracy").fit(table, labels)
        yield f"coordinates {classes} classes", model, table[::9]


def partitions():
    """Boosted partitions, alone and as a part of automatic models."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 4))
    y = np.exp((X[:, 0] > 0) + 0.3 * X[:, 1])
    few = {"n_trees": 5, "depth": 3}
    yield "partitions numbers", BoostedPartitions(**few).fit(X, y), X[::9]
    labels = np.digitize(y, [1.0, 2.0])
    yield "partitions classes", BoostedPartitions("classes", **few).fit(X, labels), X[::9]
    yield "learned metric", RecursiveFeatureMachine(2).fit(X, y), X[::9]
    yield "stacked", LeaveOneOutStacking().fit(X, y), X[::9]
    yield "combined numbers", mercer.AutoKernelRegressor("fast").fit(X, y), X[::9]
    for classes in (2, 3):
        model = mercer.AutoKernelClassifier("fast").fit(X, np.minimum(labels, classes - 1))
        yield f"combined {classes} classes", model, X[::9]


def libsvm():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        for model in (
            mercer.SVC(kernel="rbf", gamma=0.3).fit(IRIS, SPECIES),
            mercer.NuSVC(nu=0.2, gamma=0.3).fit(IRIS, SPECIES),
            mercer.SVR(kernel="poly", degree=2).fit(X_REG, Y_REG),
            mercer.NuSVR(kernel="linear").fit(X_REG, Y_REG),
            mercer.OneClassSVM(nu=0.2, gamma=0.3).fit(IRIS),
        ):
            mercer.write_libsvm(model, path)
            new = X_REG[::9] if "SVR" in type(model).__name__ else IRIS[::19]
            yield f"libsvm {type(model).__name__}", mercer.read_libsvm(path), new


def values():
    """What parameters may hold."""
    rng = np.random.default_rng(3)
    rng.integers(9, size=3, dtype=np.uint32)
    for name, value in {
        "arrays": [
            np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)[::-1],
            np.array(["a", "", "ß\U0001f600"]),
            np.array([b"a", b"bc"]),
            np.array([1 + 2j, 3]),
            np.array(["2020-01-01"], dtype="M8[D]"),
            np.array([1, "a", None, (2, 3)], dtype=object).reshape(2, 2),
            np.array([True, False]),
            np.zeros((0, 3)),
            np.float16([1.5, np.nan]),
        ],
        "containers": {"a": [1, {2, 3}], (1, "b"): frozenset([b"x"])},
        "numbers": [math.nan, math.inf, -0.0, 1e-320, 10**40, "\ud800", 1 + 2j, np.int8(3)],
        "ranges": (slice(1, None), range(3), np.dtype("f4"), np.float32, float, np.str_("x")),
        "generators": [
            rng,
            np.random.Generator(np.random.MT19937(3)),
            np.random.Generator(np.random.PCG64DXSM(3)),
            np.random.Generator(np.random.Philox(3)),
            np.random.Generator(np.random.SFC64(3)),
            np.random.RandomState(3),
        ],
        "parts": [
            BallPower(2.5),
            DenseGram(np.eye(2), "given"),
            Softmax(),
            LabelEncoder().fit(["b", "a"]),
            pd.Series(["a", "b"], name="s"),
        ],
        "tables": [
            pd.DataFrame(
                {"a": [1.0, 2.0], "b": ["x", None], "c": pd.Categorical(["u", "v"])}, index=[7, 9]
            ),
            sp.csc_matrix([[0.0, 1.0], [2.0, 0.0]]),
        ],
    }.items():
        yield f"value {name}", K.Constant(value), None


FAMILIES = (
    on_data,
    on_kernels,
    composites,
    model_zoo.other_models,
    model_zoo.feature_maps,
    losses,
    objects,
    pipelines,
    model_zoo.clusters,
    automatic,
    coordinates,
    partitions,
    libsvm,
    values,
)


def outputs(model, new):
    """What is compared: predictions, the values of a kernel, or what a constant holds."""
    if new is None:
        return model.value if isinstance(model, K.Constant) else []
    if isinstance(model, K.Kernel):
        return [np.asarray(model(new))]
    return model_zoo.outputs(model, new)


# Queries and outputs as JSON, which depends on no version of the library.


def encoded(value):
    """A value in what JSON has; the numbers of an array exactly."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    for name, (cls, taken, _) in CODES.items():
        if isinstance(value, cls):
            return {name: encoded(taken(value)) if name != "list" else list(map(encoded, value))}
    raise TypeError(type(value))


def decoded(text):
    if not isinstance(text, dict):
        return text
    ((name, inner),) = text.items()
    if name == "float":
        return float(inner)
    if name == "list":
        return list(map(decoded, inner))
    return CODES[name][2](decoded(inner))


def _array_taken(a):
    if a.dtype == object:
        return ["O", list(a.shape), a.ravel().tolist()]
    if a.dtype.kind in "Mm":
        return [a.dtype.str, list(a.shape), a.view("i8").ravel().tolist()]
    return [a.dtype.str, list(a.shape), a.ravel().tolist()]


def _array_made(parts):
    kind, shape, items = parts
    if kind == "O":
        a = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            a[i] = item
        return a.reshape(shape)
    if np.dtype(kind).kind in "Mm":
        return np.array(items, dtype="i8").view(kind).reshape(shape)
    return np.array(items, dtype=kind).reshape(shape)


def _column_taken(column):
    if isinstance(column.dtype, pd.CategoricalDtype):
        dtype = column.dtype
        return ["category", column.cat.codes.tolist(), dtype.categories.tolist(), dtype.ordered]
    if column.dtype == object or isinstance(column.dtype, pd.StringDtype):
        texts = [None if pd.isna(item) else item for item in column]
        return [str(column.dtype), texts]
    return ["numbers", column.to_numpy()]


def _column_made(parts):
    kind, items, *more = parts
    if kind == "category":
        return pd.Categorical.from_codes(items, categories=more[0], ordered=more[1])
    return items if kind == "numbers" else pd.array(items, dtype=kind)


def _table_taken(table):
    columns = [_column_taken(table.iloc[:, k]) for k in range(table.shape[1])]
    return [table.columns.tolist(), table.index.tolist(), columns]


def _table_made(parts):
    names, rows, columns = parts
    made = {name: _column_made(c) for name, c in zip(names, columns, strict=True)}
    return pd.DataFrame(made, index=rows)


def _sparse_taken(A):
    A = sp.csr_array(A)
    return [list(A.shape), A.data, A.indices, A.indptr]


def _sparse_made(parts):
    shape, data, indices, indptr = parts
    return sp.csr_array((data, indices, indptr), shape=tuple(shape))


def _drawn(generator):
    return [int(n) for n in generator.randint(10**6, size=3)]


# For each kind of value its name, class, and the ways there and back; the last are for values that
# are compared as they are written, and never made.
CODES = {
    "list": (list, None, None),
    "tuple": (tuple, list, tuple),
    "set": (set, lambda s: sorted(s, key=repr), set),
    "frozenset": (frozenset, lambda s: sorted(s, key=repr), frozenset),
    "dict": (dict, lambda d: [[k, v] for k, v in d.items()], lambda pairs: dict(pairs)),
    "bytes": (bytes, lambda b: b.decode("latin1"), lambda s: s.encode("latin1")),
    "complex": (complex, lambda z: [z.real, z.imag], lambda z: complex(*z)),
    "array": (np.ndarray, _array_taken, _array_made),
    "number": (np.generic, np.asarray, lambda a: a[()]),
    "table": (pd.DataFrame, _table_taken, _table_made),
    "sparse": ((sp.sparray, sp.spmatrix), _sparse_taken, _sparse_made),
    "slice": (slice, lambda s: [s.start, s.stop, s.step], None),
    "range": (range, lambda r: [r.start, r.stop, r.step], None),
    "dtype": (np.dtype, lambda d: d.str, None),
    "type": (type, lambda t: t.__name__, None),
    "generator": (np.random.Generator, lambda g: [int(n) for n in g.integers(10**6, size=3)], None),
    "random state": (np.random.RandomState, _drawn, None),
    "column": (pd.Series, lambda c: [c.name, _column_taken(c)], None),
    "object": (object, lambda thing: dict(vars(thing)), None),
}


def cases():
    """Names, models and queries; a query is what JSON makes of it, when it is written and read."""
    seen = set()
    for family in FAMILIES:
        for name, model, new in family():
            assert name not in seen
            seen.add(name)
            yield name, model, decoded(json.loads(json.dumps(encoded(new))))


def write(folder):
    """All models in one archive, which depends on nothing but them; those in it stay."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / "models.zip"
    old = list(read(folder)) if archive.exists() else []
    listed = [
        {"name": name, "query": encoded(query), "outputs": made} for name, _, query, made in old
    ]
    with zipfile.ZipFile(archive, "w") as into, tempfile.TemporaryDirectory() as scratch:

        def add(name, data):
            entry = zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0))
            into.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)

        for i, (_, data, _, _) in enumerate(old):
            add(f"{i}.mercer", data)
        for name, model, new in cases():
            if name in {case["name"] for case in listed}:
                continue
            path = Path(scratch) / "it.mercer"
            mercer.save(model, path)
            add(f"{len(listed)}.mercer", path.read_bytes())
            made = encoded(outputs(model, new))
            listed.append({"name": name, "query": encoded(new), "outputs": made})
        add("cases.json", json.dumps(listed, separators=(",", ":"), allow_nan=False))
    return archive, len(listed)


def read(folder):
    """The name of each model, its file, query and outputs (as they are written in JSON)."""
    with zipfile.ZipFile(folder / "models.zip") as archive:
        listed = json.load(io.TextIOWrapper(archive.open("cases.json"), "utf-8"))
        for i, case in enumerate(listed):
            yield case["name"], archive.read(f"{i}.mercer"), decoded(case["query"]), case["outputs"]


if __name__ == "__main__":
    from mercer.persistence.files import VERSION

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive, n = write(FOLDER / f"format-{VERSION}")
    print(f"{n} models, {archive.stat().st_size:,} bytes in {archive}")
