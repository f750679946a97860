"""Fitted models of every kind, each with new points and what it says of them."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import is_regressor
from sklearn.datasets import load_iris, make_regression
from sklearn.gaussian_process import kernels as S

import mercer
from mercer import kernels as K
from naive_kernels import all_cases, points, product_of_first, squares

IRIS, SPECIES = load_iris(return_X_y=True)
IRIS = (IRIS - IRIS.mean(axis=0)) / IRIS.std(axis=0)
X_REG, Y_REG = make_regression(n_samples=60, n_features=4, noise=1.0, random_state=0)
Y_REG = Y_REG / Y_REG.std()

KERNEL_ESTIMATORS = {
    "SVC": {},
    "NuSVC": {"nu": 0.2},
    "SVR": {},
    "NuSVR": {},
    "OneClassSVM": {"nu": 0.2},
    "KernelRidge": {"alpha": 0.1},
    "KernelRidgeClassifier": {"alpha": 0.1},
    "KernelRidgeCV": {},
    "KernelMachineClassifier": {"alpha": 0.1},
    "KernelMachineRegressor": {"alpha": 0.1},
    "KernelPerceptron": {"random_state": 0},
    "KernelSGDClassifier": {"alpha": 0.01, "n_iter": 300, "random_state": 0},
    "KernelCentroidClassifier": {},
    "KernelPCA": {"n_components": 2},
}
FUNCTIONS = {"product_of_first": product_of_first, "squares": squares}


# Methods that joined a class when files of its models had been written, without their answers.
JOINED = {"KernelRidgeClassifier": {"predict_proba"}}


def outputs(model, X):
    """All that the model says of new points, as arrays."""
    methods = ("decision_function", "predict_proba", "transform", "score_samples", "predict")
    without = JOINED.get(type(model).__name__, set())
    methods = [name for name in methods if hasattr(model, name) and name not in without]
    found = [getattr(model, method)(X) for method in methods]
    return [out.toarray() if sp.issparse(out) else np.asarray(out) for out in found]


def words(rng, n=30):
    return ["".join(rng.choice(list("abcd"), size=8)) for _ in range(n)]


def table(rng, n=30):
    return pd.DataFrame({"word": words(rng, n), "size": rng.normal(size=n)})


def kernel_models(name):
    """An estimator that takes a kernel, on numbers, sparse rows, tables, and on every kernel."""

    def make(kernel, **more):
        return getattr(mercer, name)(**KERNEL_ESTIMATORS[name], **more).set_params(kernel=kernel)

    numeric = is_regressor(make("rbf"))
    X, y = (X_REG, Y_REG) if numeric else (IRIS, SPECIES)
    labels = np.array([0.5, 1.0] * 15) if numeric else np.array(["no", "yes"] * 15)
    rng = np.random.default_rng(0)
    holes = np.where(np.abs(X) < 0.5, 0.0, X)
    composite = 0.5 * K.RBF(0.4, scales=[1.0, 2.0, 0.5, 3.0]) + K.Polynomial(2, 0.1)
    mixed = K.Spectrum(2).normalize().on("word") + K.RBF(1.0).on(["size"])
    yield "numbers", make(composite).fit(X, y), X[::7] + 0.1
    yield "float32", make("rbf").fit(X.astype(np.float32), y), (X[::7] + 0.1).astype(np.float32)
    yield "sparse", make(K.RBF(0.3)).fit(sp.csr_array(holes), y), sp.csr_array(holes[::7])
    named = pd.DataFrame(X, columns=list("abcd"))
    yield "named columns", make("rbf").fit(named, y), named[::7]
    array = np.array(words(rng), dtype=object)
    yield "object array", make(K.Spectrum(2).normalize() + 1.0).fit(array, labels), array[:5]
    sets = np.array([set(word) for word in array], dtype=object)
    yield "array of sets", make(K.SetJaccard()).fit(sets, labels), sets[:5]
    yield "table", make(mixed).fit(table(rng), labels), table(rng, 5)
    corrected = make(K.Sigmoid(0.5, 1.0), indefinite="flip").fit(X[::3], y[::3])
    yield "corrected", corrected, X[1::9]
    Gram = K.RBF(0.3)
    yield "precomputed", make("precomputed").fit(Gram(X), y), Gram(X[::7] + 0.1, X)
    for kernel in all_cases():
        P = points(kernel, 30, rng)
        fitted = make(kernel, indefinite="clip").fit(P, labels)
        yield f"on {kernel!r}", fitted, points(kernel, 5, rng)


def clusters():
    new = IRIS[::19]
    yield "k-means", mercer.KernelKMeans(3, gamma=0.2).fit(IRIS), new
    centred = mercer.KernelKMeans(3, kernel=K.RBF(0.2), n_centers=9)
    yield "k-means on centres", centred.fit(IRIS), new
    yield "spectral clusters", mercer.KernelSpectralClustering(2).fit(IRIS), new


def other_models():
    """The estimators that take no Mercer kernel, and unusual ways to fit the others."""
    rng = np.random.default_rng(0)
    X, y, new = X_REG, Y_REG, X_REG[::7] + 0.1
    for solver in ("cholesky", "eigh", "pcg", "nystrom", "primal", "gd"):
        model = mercer.KernelRidge(kernel=K.Polynomial(2), solver=solver, step_size=1e-6)
        yield f"ridge by {solver}", model.set_params(max_iter=10).fit(X, y), new
    ridge = mercer.KernelRidge(solver="nystrom", n_centers=10, random_state=0)
    yield "ridge in parts", ridge.partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:]), new
    strings = words(rng)
    ridge = mercer.KernelRidge(kernel=K.Spectrum(2), solver="nystrom", n_centers=10)
    yield "ridge of strings in parts", ridge.partial_fit(strings, y[:30]), words(rng, 5)
    ridge = mercer.KernelRidge(kernel=K.Spectrum(2), solver="primal")
    yield "ridge of words", ridge.fit(strings, y[:30]), words(rng, 5)
    normal = (K.Polynomial(2) * K.Linear().on([0, 1])).normalize() + 1.0
    yield "ridge of features", mercer.KernelRidge(kernel=normal, solver="primal").fit(X, y), new
    indefinite = mercer.KernelRidge(kernel="sigmoid", solver="nystrom", indefinite="clip")
    yield "corrected ridge on centres", indefinite.set_params(n_centers=20).fit(X, y), new
    several = mercer.KernelRidgeCV(solver="nystrom", n_centers=10)
    yield "two targets on centres", several.fit(X, np.column_stack([y, -y])), new
    quantiles = mercer.KernelMachineRegressor(loss="quantile", quantile=[0.1, 0.9])
    yield "quantiles", quantiles.fit(X, y), new
    huber = mercer.estimators.losses.Huber(0.5)
    yield "a loss of ours", mercer.KernelMachineRegressor(loss=huber).fit(X, y), new
    softmax = mercer.KernelMachineClassifier(loss="logistic", n_centers=10)
    yield "softmax on centres", softmax.fit(IRIS, SPECIES), IRIS[::7]
    online = mercer.KernelPerceptron(average=True)
    yield "perceptron in parts", online.partial_fit(IRIS, SPECIES, classes=[0, 1, 2]), IRIS[::7]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        state = np.random.RandomState(3)
        calibrated = mercer.SVC(probability=True, random_state=state).fit(IRIS, SPECIES)
    yield "probabilities", calibrated, IRIS[::7]
    yield "warm start", mercer.SVC(warm_start=True).fit(IRIS, SPECIES), IRIS[::7]
    squared = np.hstack([X[:, :2] ** 2, X[:, :1]])
    yield "two views", mercer.KernelCCA(regularization="loo").fit(X, squared), new
    views = [X, squared, X[:, 2:] ** 3]
    yield "three views", mercer.KernelCCA().fit(views), [view[::7] for view in views]
    several = mercer.KernelCCA(kernel=[K.Spectrum(2), "rbf"]).fit(strings, X[:30])
    yield "views of two kinds", several, words(rng, 5)
    for kernel in ("gaussian", "hypercube", "tophat", "epanechnikov", "biweight"):
        yield f"{kernel} density", mercer.KernelDensity(kernel=kernel).fit(X[:, :2]), new[:, :2]
    for kernel in ("triweight", "triangular", "cosine", "exponential"):
        yield f"{kernel} density", mercer.KernelDensity(kernel=kernel).fit(X[:, :2]), new[:, :2]
    for bandwidth in ("scott", "silverman", "lscv", "mlcv", "plugin"):
        density = mercer.KernelDensity(bandwidth=bandwidth)
        yield f"density by {bandwidth}", density.fit(X[:, :2]), new[:, :2]
    density = mercer.KernelDensity(bandwidth="isj", bounds=(-4, None), adaptive=0.5)
    yield "bounded density", density.fit(X[:, :1]), new[:, :1]
    kinds = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(["u", "v", "w"] * 20, ordered=True)})
    for name in ("NadarayaWatsonRegressor", "LocalLinearRegressor"):
        yield name, getattr(mercer, name)().fit(X, y), new
        local = getattr(mercer, name)(categorical_features="from_dtype")
        yield f"{name} with categories", local.fit(kinds, y), kinds[::7]
    raw = table(rng, 40).assign(kind=pd.Categorical(["u", "v"] * 20))
    raw.loc[3, "size"] = np.nan
    found = mercer.AutoKernelClassifier().fit(raw, ["no", "yes"] * 20)
    yield "automatic classes", found, raw[::7]
    yield "automatic numbers", mercer.AutoKernelRegressor().fit(raw, np.arange(40.0)), raw[::7]
    yield "local classes", mercer.NadarayaWatsonClassifier().fit(IRIS, SPECIES), IRIS[::7]
    yield from gaussian_processes()


def gaussian_processes():
    X, y, new = X_REG, Y_REG, X_REG[::9] + 0.1
    ours = mercer.GaussianProcessRegressor(1.0 * K.RBF(), mean="linear")
    yield "process", ours.fit(X, y), new
    texts = words(np.random.default_rng(0))
    model = mercer.GaussianProcessRegressor(K.Spectrum(2), normalize_y=True)
    yield "process of words", model.fit(texts, np.column_stack([y, -y])[:30]), texts[:3]
    line = np.linspace(0, 3, 20)[:, None]
    every = S.RBF() + S.RationalQuadratic() * S.ExpSineSquared(periodicity_bounds="fixed")
    every = every + S.DotProduct() ** 2 + S.ConstantKernel(2.0) * S.WhiteKernel()
    theirs = mercer.GaussianProcessRegressor(every, optimizer=None)
    yield "process of their kernels", theirs.fit(line, np.sin(line[:, 0])), line[::5] + 0.1
    used = S.Matern(nu=0.7) + S.PairwiseKernel(metric="rbf")
    theirs = mercer.GaussianProcessRegressor(used, alpha=0.1, optimizer=None)
    yield "process of other kernels", theirs.fit(line, np.sin(line[:, 0])), line[::5] + 0.1
    points = mercer.GaussianProcessRegressor(1.0 * K.RBF(), n_inducing=10, mean="constant")
    yield "process on inducing points", points.fit(X, y), new
    search = mercer.StructureSearch(max_steps=1, unit="month")
    yield "structure", search.fit(line, np.sin(3 * line[:, 0])), line[::5] + 0.1
    classes = mercer.GaussianProcessClassifier(1.0 * K.RBF(), optimizer=None)
    yield "process of classes", classes.fit(IRIS[::3], SPECIES[::3]), IRIS[::19]
    classes = mercer.GaussianProcessClassifier(1.0 * K.RBF(), optimizer=None, n_inducing=5)
    yield "process of classes on inducing points", classes.fit(X, Y_REG > 0), new
    products = mercer.GaussianProcessRegressor(1.0 * K.RBF(), engine="iterative", mean="constant")
    yield "process by products", products.fit(X, y), new


def feature_maps():
    rng = np.random.default_rng(0)
    for kernel in [*all_cases(), K.RBF(0.5, scales=[1.0, 2.0, 3.0])]:
        P = points(kernel, 12, rng)
        P = np.round(P) if isinstance(kernel, K.Min) else P
        try:
            features = kernel.feature_map().fit(P)
        except K.NoFiniteFeatureMap:
            continue
        yield f"features of {kernel!r}", features, P[:3]
    truncated = K.RBF(0.5, scales=[1.0, 2.0]).truncated_map(3)
    yield "truncated map", truncated.fit(X_REG[:, :2]), X_REG[:5, :2]
    for method, kernel in (("fourier", K.RBF()), ("nystrom", K.RBF()), ("sketch", K.Polynomial(2))):
        drawn = kernel.approximate_map(10, method, random_state=0).fit(X_REG)
        yield f"map by {method}", drawn, X_REG[:5]
