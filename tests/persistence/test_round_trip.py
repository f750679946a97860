"""What is saved comes back with the same bits, whatever it is."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
import warnings

import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import mercer
import model_zoo
from mercer import kernels as K
from mercer.cached import cached_property
from mercer.estimators.losses import Huber, Loss
from mercer.persistence import registry
from naive_kernels import all_cases, points
from sklearn_versions import needs_callbacks

ESTIMATORS = [name for name in mercer.__all__ if name[0].isupper()]


def again(thing, path, **more):
    """Saved and loaded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        mercer.save(thing, path / "it.mercer")
    return mercer.load(path / "it.mercer", **more)


KEPT = []  # so that addresses are of one object only


def same(a, b, seen=None):
    """Whether two values are the same to the last bit, through all they hold."""
    seen = {} if seen is None else seen
    if id(a) in seen:
        return seen[id(a)] is b  # what was shared still is
    if type(a) is not type(b):
        return False
    if a is None or isinstance(a, bool | int | float | str | bytes | complex):
        return repr(a) == repr(b)
    seen[id(a)] = b
    KEPT.append(a)
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype == object:
            return all(same(x, y, seen) for x, y in zip(a.flat, b.flat, strict=True))
        kept = a.flags.c_contiguous <= b.flags.c_contiguous
        kept &= a.flags.f_contiguous <= b.flags.f_contiguous
        return bool(kept and b.flags.writeable and a.tobytes() == b.tobytes())
    if isinstance(a, np.generic):
        return a.tobytes() == b.tobytes()
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y, seen) for x, y in zip(a, b, strict=True))
    if isinstance(a, set | frozenset):
        return a == b
    if isinstance(a, dict):
        pairs = zip(a.items(), b.items(), strict=True)
        return all(same(k, m, seen) and same(v, w, seen) for (k, v), (m, w) in pairs)
    if sp.issparse(a):
        parts = ("data", "indices", "indptr", "shape")
        return all(same(getattr(a, part), getattr(b, part), seen) for part in parts)
    if isinstance(a, pd.DataFrame):
        pd.testing.assert_frame_equal(a, b, check_exact=True)
        return True
    if type(a).__name__ == "KeyTable":
        return np.array_equal(a.keys(), b.keys())
    if isinstance(a, np.random.RandomState):
        return same(list(a.get_state()), list(b.get_state()))
    if hasattr(a, "__dict__"):
        return same(given(a), given(b), seen)
    return a == b


def given(a):
    """The attributes of an object, without what is computed when asked for."""
    if dataclasses.is_dataclass(a):
        return {field.name: getattr(a, field.name) for field in dataclasses.fields(a)}
    return {name: part for name, part in vars(a).items() if not is_computed(a, name)}


def is_computed(a, name):
    return isinstance(inspect.getattr_static(type(a), name, None), cached_property)


def check_model(model, new, path):
    expected = model_zoo.outputs(model, new)
    loaded = again(model, path, functions=model_zoo.FUNCTIONS)
    assert same(vars(model), vars(loaded))
    for before, after in zip(expected, model_zoo.outputs(loaded, new), strict=True):
        assert before.dtype == after.dtype
        assert before.tobytes() == after.tobytes()


@pytest.mark.parametrize("name", model_zoo.KERNEL_ESTIMATORS)
def test_every_kernel_estimator_on_every_kernel(name, tmp_path):
    for label, model, new in model_zoo.kernel_models(name):
        try:
            check_model(model, new, tmp_path)
        except Exception as error:
            raise AssertionError(f"{name} {label}") from error


@pytest.mark.parametrize(
    "family", [model_zoo.other_models, model_zoo.clusters, model_zoo.feature_maps]
)
def test_the_others(family, tmp_path):
    for label, model, new in family():
        try:
            check_model(model, new, tmp_path)
        except Exception as error:
            raise AssertionError(label) from error


def test_every_class_is_known():
    public = set(ESTIMATORS)
    public |= {
        f"kernel.{name}" for name, cls in K.REGISTRY.items() if cls.__module__.startswith("mercer.")
    }
    for name in public:
        assert registry.class_name(registry.named(name)) == name
    tried = set(model_zoo.KERNEL_ESTIMATORS)
    for models in (model_zoo.other_models, model_zoo.clusters):
        tried |= {type(model).__name__ for _, model, _ in models()}
    assert tried >= set(ESTIMATORS)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_unfitted(name, tmp_path):
    model = getattr(mercer, name)()
    loaded = again(model, tmp_path)
    assert same(vars(model), vars(loaded))
    assert repr(clone(loaded)) == repr(model)


@pytest.mark.parametrize("kernel", all_cases(), ids=repr)
def test_kernels_by_themselves(kernel, tmp_path):
    P = points(kernel, 6, np.random.default_rng(0))
    loaded = again(kernel, tmp_path, functions=model_zoo.FUNCTIONS)
    assert type(loaded) is type(kernel)
    assert kernel(P).tobytes() == loaded(P).tobytes()


def test_composite_kernels(tmp_path):
    X = np.random.default_rng(0).normal(size=(6, 3))
    rescaled = K.exp(1.0 * K.Linear()).rescale(K.exp(-0.5 * K.sqnorm) / (1 + K.sqnorm) ** 2)
    for kernel in (
        2 * K.RBF(0.3) - K.RBF(0.4) * K.Polynomial(2) ** 3 / 7,
        (K.RBF() + 1).normalize().on([0, 2]),
        rescaled,
        sum(K.RBF(0.1).on([j % 3]) for j in range(150)),
    ):
        loaded = again(kernel, tmp_path)
        assert kernel(X).tobytes() == loaded(X).tobytes()
        assert kernel.key() == loaded.key() or kernel is rescaled


def test_a_fresh_process_predicts_the_same_bits(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), rng.normal(size=200)
    models = {
        "ridge": (mercer.KernelRidgeCV(kernel=K.Matern(1.5)).fit(X, y), X[:20] + 0.1),
        "svm": (mercer.SVC(kernel=K.RBF(0.1)).fit(X, y > 0), X[:20] + 0.1),
        "smoother": (mercer.LocalLinearRegressor(bandwidth=1.0).fit(X, y), X[:20] + 0.1),
    }
    np.savez(tmp_path / "new.npz", **{name: new for name, (_, new) in models.items()})
    for name, (model, _) in models.items():
        mercer.save(model, tmp_path / f"{name}.mercer")
    code = (
        "import sys, numpy as np, mercer\n"
        "folder = sys.argv[1]\n"
        "new = np.load(folder + '/new.npz')\n"
        "found = {k: mercer.load(f'{folder}/{k}.mercer').predict(new[k]) for k in new}\n"
        "np.savez(folder + '/found.npz', **found)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    found = np.load(tmp_path / "found.npz")
    for name, (model, new) in models.items():
        assert model.predict(new).tobytes() == found[name].tobytes()


def test_pipelines_with_preprocessing(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=60), "b": ["x", "y", "z"] * 20, "c": np.arange(60)})
    X.loc[3, "a"] = np.nan
    y = np.array(["no", "yes"] * 30)
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "c"]),
        (OneHotEncoder(handle_unknown="ignore"), ["b"]),
    )
    model = make_pipeline(columns, mercer.SVC()).fit(X, y)
    loaded = again(model, tmp_path)
    expected = model.decision_function(X)
    assert expected.tobytes() == loaded.decision_function(X).tobytes()
    assert list(model[:-1].get_feature_names_out()) == list(loaded[:-1].get_feature_names_out())


def test_another_scikit_learn_is_warned_of(tmp_path, monkeypatch):
    model = make_pipeline(StandardScaler(), mercer.SVC())
    monkeypatch.setattr("sklearn.__version__", "1.9.99")
    mercer.save(model, tmp_path / "it")
    monkeypatch.undo()
    with pytest.warns(InconsistentVersionWarning, match=r"1\.9\.99"):
        mercer.load(tmp_path / "it")


@pytest.mark.parametrize(
    "value",
    [
        np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)[::-1],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(6)[::-1],
        np.array(2.5),
        np.zeros((0, 3)),
        np.array(["a", "", "ß\U0001f600"]),
        np.array([], dtype=str),
        np.array([b"a", b"bc"]),
        np.array([1 + 2j, 3]),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.array([1, "a", None, (2, 3)], dtype=object).reshape(2, 2),
        np.arange(3, dtype=">f8"),
        np.array([True, False]),
        np.float16([1.5, np.nan]),
        {"a": [1, {2, 3}], (1, "b"): frozenset([b"x"])},
        [float("nan"), float("inf"), -0.0, 1e-320, 10**40, "\ud800", 1 + 2j, b"\x00"],
        (slice(1, None), range(3), np.int8(3), np.str_("x"), np.dtype("f4"), np.float32, float),
        np.random.default_rng(3),
        np.random.Generator(np.random.MT19937(3)),
        sp.csc_matrix([[0.0, 1.0], [2.0, 0.0]]),
        pd.DataFrame(
            {"a": [1.0, np.nan], "b": ["x", None], "c": pd.Categorical(["u", "v"]), 4: [1, 2]},
            index=[7, 9],
        ),
        pd.Series(["a", "b"], name="s"),
        pd.DataFrame([[1, 2]], columns=["same", "same"]),
    ],
    ids=lambda value: f"{type(value).__name__} {value!r:.20}",
)
def test_values_of_all_kinds(value, tmp_path):
    """A parameter may hold anything at all."""
    loaded = again(K.Constant(value), tmp_path).value
    if isinstance(value, np.random.Generator):
        assert loaded.normal(size=5).tolist() == value.normal(size=5).tolist()
    elif isinstance(value, pd.DataFrame | pd.Series):
        assert loaded.equals(value)
        assert loaded.index.equals(value.index)
        assert repr(loaded) == repr(value)
    elif sp.issparse(value):
        assert type(loaded) is type(value)
        assert (loaded != value).nnz == 0
    elif isinstance(value, np.ndarray) and not value.dtype.isnative:
        assert same(value.astype(value.dtype.newbyteorder("=")), loaded)
    else:
        assert same(value, loaded)


def test_what_is_shared_stays_shared(tmp_path):
    inner = [1, 2]
    loaded = again(K.Constant([inner, inner]), tmp_path).value
    assert loaded[0] is loaded[1]
    graphs = K.WeisfeilerLehman().parse_objects([([(0, 1)], ["C", "O"]), ([(0, 1)], ["C", "N"])])
    first, second = again(K.Constant(graphs), tmp_path).value
    assert first.nodes is second.nodes


def test_trees_of_any_depth(tmp_path):
    deep = ("leaf",)
    for _ in range(50_000):
        deep = ("node", deep)
    loaded = again(K.Constant([deep]), tmp_path).value[0]
    depth = 0
    while len(loaded) == 2:
        depth, loaded = depth + 1, loaded[1]
    assert depth == 50_000
    trees = [K.Tree.parse(("a", "b")), K.Tree.parse("(S (NP the cat) (VP sleeps))")]
    assert again(K.Constant(trees), tmp_path).value == trees


def test_graphs_of_networkx_come_back_as_ours(tmp_path):
    graphs = [networkx.path_graph(4), networkx.cycle_graph(5), networkx.star_graph(3)]
    for i, graph in enumerate(graphs):
        networkx.set_node_attributes(graph, {node: "CN"[(node + i) % 2] for node in graph}, "label")
    kernel = K.WeisfeilerLehman(2)
    model = mercer.KernelRidge(kernel=kernel).fit(graphs, [1.0, 2.0, 3.0])
    loaded = again(model, tmp_path)
    assert all(isinstance(graph, K.Graph) for graph in loaded.X_fit_)
    assert model.predict(graphs).tobytes() == loaded.predict(graphs).tobytes()


@needs_callbacks
def test_who_listens_is_forgotten(tmp_path):
    class Listener:
        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, *arguments, **named): ...
        def on_fit_task_end(self, *arguments, **named): ...

    model = mercer.SVC().set_callbacks(Listener()).fit(model_zoo.IRIS, model_zoo.SPECIES)
    loaded = again(model, tmp_path)
    assert not hasattr(loaded, "_skl_callbacks")
    assert same(model.predict(model_zoo.IRIS), loaded.predict(model_zoo.IRIS))


# Code of the user's.


def gauss(x, z):
    return float(np.exp(-np.sum((x - z) ** 2)))


class Cubic(Loss):
    def __init__(self, weight=1.0):
        self.weight = weight

    def value(self, y, f):
        return self.weight * float(np.sum(np.abs(y - f) ** 3))

    def gradient(self, y, f):
        return self.weight * 3 * (f - y) * np.abs(f - y)


def test_functions_are_given_again(tmp_path):
    X, y = model_zoo.X_REG, model_zoo.Y_REG
    model = mercer.KernelRidge(kernel=gauss).fit(X, y)
    with pytest.warns(UserWarning, match=r"'gauss' \(KernelRidge\.kernel\)"):
        mercer.save(model, tmp_path / "it")
    with pytest.raises(ValueError, match=r"code of yours.*'gauss' \(as KernelRidge\.kernel\)"):
        mercer.load(tmp_path / "it")
    with pytest.raises(ValueError, match="code of yours"):
        mercer.load(tmp_path / "it", functions={"other": gauss})
    with pytest.raises(TypeError, match=r"functions\['gauss'\] is a int"):
        mercer.load(tmp_path / "it", functions={"gauss": 3})
    loaded = mercer.load(tmp_path / "it", functions={"gauss": gauss})
    assert loaded.kernel is gauss
    assert loaded.predict(X).tobytes() == model.predict(X).tobytes()


def test_losses_are_given_again(tmp_path):
    X, y = model_zoo.X_REG, model_zoo.Y_REG
    model = mercer.KernelMachineRegressor(loss=Cubic(2.0)).fit(X, y)
    with pytest.warns(UserWarning, match="Cubic"):
        mercer.save(model, tmp_path / "it")
    with pytest.raises(ValueError, match=r"'Cubic' \(as KernelMachineRegressor\.loss\)"):
        mercer.load(tmp_path / "it")
    with pytest.raises(TypeError, match=r"is the class Cubic; give an object .* Cubic\(\.\.\.\)"):
        mercer.load(tmp_path / "it", functions={"Cubic": Cubic})
    with pytest.raises(TypeError, match="is a function; give an object as was saved"):
        mercer.load(tmp_path / "it", functions={"Cubic": len})
    loaded = mercer.load(tmp_path / "it", functions={"Cubic": Cubic(2.0)})
    assert loaded.predict(X).tobytes() == model.predict(X).tobytes()
    ours = again(mercer.KernelMachineRegressor(loss=Huber(0.3)), tmp_path)
    assert isinstance(ours.loss, Huber)


def test_two_functions_of_one_name(tmp_path):
    kernel = K.Linear().compose(lambda X: X[:, :1]) + K.Linear().compose(lambda X: X[:, 1:] ** 2)
    functions = {"<lambda>": kernel.left.function, "<lambda> 2": kernel.right.function}
    loaded = again(kernel, tmp_path, functions=functions)
    X = model_zoo.X_REG
    assert loaded(X).tobytes() == kernel(X).tobytes()


def test_functions_with_parameters(tmp_path):
    from sklearn.metrics.pairwise import rbf_kernel

    X, y = model_zoo.IRIS, model_zoo.SPECIES
    model = mercer.KernelPCA(kernel=lambda x, z, c: c * float(x @ z), kernel_params={"c": 2.0})
    model.fit(X)
    loaded = again(model, tmp_path, functions={"<lambda>": model.kernel})
    assert loaded.transform(X).tobytes() == model.transform(X).tobytes()
    machine = mercer.SVC(kernel=rbf_kernel).fit(X, y)
    assert again(machine, tmp_path, functions={"rbf_kernel": rbf_kernel}).kernel is rbf_kernel
    named = mercer.KernelRidge(kernel="additive_chi2", indefinite="flip").fit(np.abs(X), y)
    assert again(named, tmp_path).predict(np.abs(X)).tolist() == named.predict(np.abs(X)).tolist()


def test_kernels_of_the_users_own(tmp_path):
    class Halved(K.RBF):
        def __init__(self, gamma=1.0, scales=None):
            super().__init__(gamma, scales)

    X, y = model_zoo.X_REG, model_zoo.Y_REG
    model = mercer.KernelRidge(kernel=Halved(0.3) + 1.0).fit(X, y)
    loaded = again(model, tmp_path, functions={"Halved": Halved(0.3)})
    assert loaded.predict(X).tobytes() == model.predict(X).tobytes()
    with pytest.warns(UserWarning, match=r"Halved\(gamma=0\.3\).* is Halved\(gamma=0\.5\)"):
        again(model, tmp_path, functions={"Halved": Halved(0.5)})
    with pytest.raises(TypeError, match=r"as was saved: Halved\(gamma=0\.3\)"):
        again(model, tmp_path, functions={"Halved": Halved})
    K.REGISTRY.pop("Halved")
    with pytest.raises(TypeError, match="Halved"):
        mercer.save(Halved(), tmp_path / "it")


def density(u):
    return 0.5 * np.exp(-np.abs(u[..., 0]))


def test_smoothing_functions(tmp_path):
    X = model_zoo.X_REG[:, :1]
    model = mercer.KernelDensity(kernel=density).fit(X)
    loaded = again(model, tmp_path, functions={"density": density})
    assert loaded.score_samples(X).tobytes() == model.score_samples(X).tobytes()
    assert loaded.sample(5, random_state=0).tobytes() == model.sample(5, random_state=0).tobytes()


# What cannot be saved is said.


class Stranger(BaseEstimator):
    pass


@pytest.mark.parametrize(
    ("thing", "match"),
    [
        (3, "an estimator or a kernel"),
        (Stranger(), "an estimator or a kernel.*Stranger"),
        (make_pipeline(Stranger(), mercer.SVC()), r"Pipeline\.steps\[0\]\[1\] .* Stranger"),
        (mercer.SVC(C=object()), r"SVC\.C cannot be saved: it is a object"),
        (K.Constant(np.longdouble(1)), r"Constant\.value .* kind"),
        (K.Constant({"a": np.zeros(2, dtype="i4,f8")}), r"Constant\.value\['a'\] .* kind"),
        (K.Constant(np.ma.masked_array([1.0])), "MaskedArray"),
        (K.Constant(pd.Series([1, None], dtype="Int64", name="n")), "column 'n' .* Int64"),
        (K.Constant(BaseEstimator), "class BaseEstimator"),
        (K.Constant(sp.coo_array([[1.0]])), "coo_array"),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_what_cannot_be_saved_is_named(thing, match, tmp_path):
    with pytest.raises(TypeError, match=match):
        mercer.save(thing, tmp_path / "it")
    assert not list(tmp_path.iterdir())


def test_cycles_are_refused(tmp_path):
    cycle = []
    cycle.append([cycle])
    with pytest.raises(TypeError, match="contains itself"):
        mercer.save(K.Constant(cycle), tmp_path / "it")


def test_notes(tmp_path):
    mercer.save(K.RBF(), tmp_path / "it", notes={"target": "y", "score": [0.5, None]})
    assert mercer.read_notes(tmp_path / "it") == {"target": "y", "score": [0.5, None]}
    with pytest.raises(TypeError):
        mercer.save(K.RBF(), tmp_path / "it", notes={"target": object()})
    assert mercer.read_notes(tmp_path / "it")["target"] == "y"
