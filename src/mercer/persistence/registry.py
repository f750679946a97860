"""What a file may hold: classes, functions and methods, by ids that outlive the code's layout.

The list is closed: an id that is not here is refused, and nothing is imported because a file says
so. Where a thing lives is written here only, so that a module can move and files stay as they are.
A class that joins the library, and whose objects are part of a fitted model, joins the list.

Each id has versions, counted from 1. ``attributes.json`` lists the attributes that each version
has, the oldest first; `UPGRADES` leads from one version to the next.
"""

from __future__ import annotations

import dis
import functools
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from types import CodeType
from typing import Any

from mercer import auto, estimators, kernels

# Private or not, whatever fitted models are made of: for each module, ids and names there.
PARTS = {
    "mercer.tables.sparse": {"coding.Sparse": "SparseCoding"},
    "mercer.tables.coding": {"coding.Table": "TableCoding"},
    "mercer.tables.graphs": {"coding.Graphs": "GraphCoding"},
    "mercer.tables.coordinates": {"coding.Coordinates": "TableCoordinates"},
    "mercer.estimators.gaussian_process.binary": {"gaussian.Binary": "BinaryModel"},
    "mercer.estimators.gaussian_process.mean": {"gaussian.Mean": "MeanBasis"},
    "mercer.estimators.gaussian_process.sklearn_kernels": {"gaussian.Gram": "GramCovariance"},
    "mercer.estimators.gaussian_process.structure_words": {"gaussian.Axis": "Axis"},
    "mercer.estimators.smoothing.columns": {"coding.Columns": "ColumnCoding"},
    "mercer.estimators.centres": {"ridge.Centres": "Centres"},
    "mercer.estimators.smoothing.supports": {"density.Box": "BoxSupport"},
    "mercer.estimators.spectral.views": {"cca.View": "KernelView"},
    "mercer.expressions.nodes": {
        "expression.Add": "Add",
        "expression.Constant": "Constant",
        "expression.Divide": "Divide",
        "expression.Function": "Function",
        "expression.Multiply": "Multiply",
        "expression.Power": "Power",
        "expression.Statistic": "Statistic",
    },
    "mercer.expressions.views": {"expression.View": "View"},
    "mercer.kernels.approximations": {
        "map.Fourier": "FourierMap",
        "map.Nystrom": "NystromMap",
        "map.Sketch": "SketchMap",
    },
    "mercer.kernels.smoothing.densities": {"smoothing.Function": "FunctionKernel"},
    "mercer.kernels.vector.distance": {"map.Envelope": "_Envelope"},
    "mercer.kernels.feature_maps": {
        "map.Composed": "ComposedMap",
        "map.Conjunction": "ConjunctionMap",
        "map.Constant": "ConstantMap",
        "map.Function": "FunctionMap",
        "map.Identity": "IdentityMap",
        "map.Matrix": "MatrixMap",
        "map.Monomial": "MonomialMap",
        "map.Product": "ProductMap",
        "map.Rescaled": "RescaledMap",
        "map.Sum": "SumMap",
        "map.Unary": "UnaryMap",
    },
    "mercer.kernels.graph.kernels": {
        "vocabulary.Bins": "BinVocabulary",
        "vocabulary.Paths": "PathVocabulary",
    },
    "mercer.kernels.graph.graphs": {"data.Graph": "Graph"},
    "mercer.kernels.hyperparameters": {"gaussian.Entry": "Entry"},
    "mercer.kernels.keys": {"vocabulary.Keys": "KeyVocabulary"},
    "mercer.kernels.sequences": {"vocabulary.Alphabet": "Alphabet"},
    "mercer.kernels.smoothing.windows": {
        "smoothing.BallPower": "BallPower",
        "smoothing.Biweight": "Biweight",
        "smoothing.Cosine": "Cosine",
        "smoothing.Epanechnikov": "Epanechnikov",
        "smoothing.Exponential": "Exponential",
        "smoothing.Gaussian": "Gaussian",
        "smoothing.Hypercube": "Hypercube",
        "smoothing.Tophat": "Tophat",
        "smoothing.Triangular": "Triangular",
        "smoothing.Triweight": "Triweight",
    },
    "mercer.kernels.columns": {"map.PickColumns": "PickColumns"},
    "mercer.kernels.tree.trees": {"data.Tree": "Tree", "vocabulary.Subtrees": "SubtreeVocabulary"},
    "mercer.kernels.vocabulary": {
        "map.Vocabulary": "VocabularyMap",
        "vocabulary.Words": "WordVocabulary",
    },
    "mercer.operators.gram": {"gram.Corrected": "CorrectedGram", "gram.Dense": "DenseGram"},
    "mercer.solvers.spectral.canonical": {"cca.Variates": "CanonicalVariates"},
    "mercer.solvers.evidence.covariance": {"gaussian.Covariance": "KernelCovariance"},
    "mercer.solvers.evidence.exact": {"gaussian.Posterior": "ExactPosterior"},
    "mercer.solvers.evidence.inducing": {"gaussian.InducingPosterior": "InducingPosterior"},
    "mercer.solvers.evidence.inducing_sums": {"gaussian.Sums": "Sums"},
    "mercer.solvers.evidence.iterative": {
        "gaussian.IterativeEngine": "IterativeEngine",
        "gaussian.IterativePosterior": "IterativePosterior",
    },
    "mercer.solvers.evidence.label_bound": {"gaussian.LabelPosterior": "LabelPosterior"},
    "mercer.solvers.evidence.laplace": {"gaussian.LaplacePosterior": "LaplacePosterior"},
    "mercer.solvers.evidence.problem": {
        "gaussian.Evidence": "Evidence",
        "gaussian.LabelProblem": "LabelProblem",
        "gaussian.Problem": "EvidenceProblem",
    },
    "mercer.solvers.losses": {
        "loss.Absolute": "Absolute",
        "loss.EpsilonInsensitive": "EpsilonInsensitive",
        "loss.Hinge": "Hinge",
        "loss.Huber": "Huber",
        "loss.Logistic": "Logistic",
        "loss.Poisson": "Poisson",
        "loss.Quantile": "Quantile",
        "loss.Squared": "Squared",
        "loss.SquaredHinge": "SquaredHinge",
    },
    "mercer.solvers.nystrom.ridge": {"nystrom.Solution": "NystromSolution"},
    "mercer.solvers.nystrom.sums": {"nystrom.Moments": "FeatureMoments"},
    "mercer.solvers.nystrom.whitening": {"nystrom.Whitening": "CentreWhitening"},
    "mercer.solvers.linear.pcg": {"pcg.Solution": "PcgSolution"},
    "mercer.solvers.online.perceptron": {"perceptron.State": "PerceptronState"},
    "mercer.solvers.linear.primal": {"primal.Solution": "PrimalSolution"},
    "mercer.solvers.qp.quadratic_program": {"qp.Solution": "Solution"},
    "mercer.solvers.result": {"solver.Result": "Result", "solver.Status": "Status"},
    "mercer.solvers.risk_problem": {"risk.Solution": "Machine"},
    "mercer.solvers.risk.softmax": {"loss.Softmax": "Softmax"},
    "mercer.solvers.risk.feature_span": {"span.Solution": "Solution"},
    "mercer.solvers.spectral.eigenpairs": {"spectral.Eigenpairs": "Eigenpairs"},
}

# Preprocessing, linear models after a feature map, and what our estimators hold: ids are public
# names, but for classes that have none. Searches and ensembles are not here: save their
# ``best_estimator_``.
SCIKIT_LEARN = [
    "sklearn.calibration.CalibratedClassifierCV",
    "sklearn.compose.ColumnTransformer",
    "sklearn.compose.TransformedTargetRegressor",
    "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.gaussian_process.kernels.DotProduct",
    "sklearn.gaussian_process.kernels.ExpSineSquared",
    "sklearn.gaussian_process.kernels.Exponentiation",
    "sklearn.gaussian_process.kernels.Matern",
    "sklearn.gaussian_process.kernels.PairwiseKernel",
    "sklearn.gaussian_process.kernels.Product",
    "sklearn.gaussian_process.kernels.RBF",
    "sklearn.gaussian_process.kernels.RationalQuadratic",
    "sklearn.gaussian_process.kernels.Sum",
    "sklearn.gaussian_process.kernels.WhiteKernel",
    "sklearn.impute.MissingIndicator",
    "sklearn.impute.SimpleImputer",
    "sklearn.kernel_approximation.Nystroem",
    "sklearn.kernel_approximation.PolynomialCountSketch",
    "sklearn.kernel_approximation.RBFSampler",
    "sklearn.linear_model.BayesianRidge",
    "sklearn.linear_model.ElasticNet",
    "sklearn.linear_model.ElasticNetCV",
    "sklearn.linear_model.HuberRegressor",
    "sklearn.linear_model.Lasso",
    "sklearn.linear_model.LassoCV",
    "sklearn.linear_model.LinearRegression",
    "sklearn.linear_model.LogisticRegression",
    "sklearn.linear_model.LogisticRegressionCV",
    "sklearn.linear_model.QuantileRegressor",
    "sklearn.linear_model.Ridge",
    "sklearn.linear_model.RidgeCV",
    "sklearn.linear_model.RidgeClassifier",
    "sklearn.linear_model.RidgeClassifierCV",
    # A function that the library's own name stands for.
    "sklearn.metrics.pairwise.additive_chi2_kernel",
    "sklearn.model_selection.KFold",
    "sklearn.model_selection.LeaveOneOut",
    "sklearn.model_selection.StratifiedKFold",
    "sklearn.pipeline.FeatureUnion",
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing.FunctionTransformer",
    "sklearn.preprocessing.LabelBinarizer",
    "sklearn.preprocessing.LabelEncoder",
    "sklearn.preprocessing.MaxAbsScaler",
    "sklearn.preprocessing.MinMaxScaler",
    "sklearn.preprocessing.Normalizer",
    "sklearn.preprocessing.OneHotEncoder",
    "sklearn.preprocessing.OrdinalEncoder",
    "sklearn.preprocessing.RobustScaler",
    "sklearn.preprocessing.StandardScaler",
    "sklearn.svm.LinearSVC",
    "sklearn.svm.LinearSVR",
]
PRIVATE = {
    "sklearn.calibration": {
        "calibration.Classifier": "_CalibratedClassifier",
        "calibration.Sigmoid": "_SigmoidCalibration",
    },
}

# Methods of kernels that their feature maps hold.
METHODS = {
    "method.embed": "embed",
    "method.envelope": "_factor",
    "method.mapped": "_mapped",
    "method.scaled": "_in_scales",
}

# For each form that has an id, its place in the record.
PLACES = {"object": 1, "member": 1, "known function": 1, "method": 2}

# Public names that have changed: the name now, and the id, which is the first name.
RENAMED: dict[str, str] = {}

# What leads from one version of a class to the next: for each id, one function for each version but
# the last. It takes the attributes an object has in a file, by name, and returns those of the next
# version. It runs on files of strangers, so it only renames, drops, and adds constants.
Attributes = dict[str, Any]
UPGRADES: dict[str, list[Callable[[Attributes], Attributes]]] = {
    "AutoKernelClassifier": [
        lambda old: {
            **old,
            "quality": "best",
            "metric": "log_loss",
            "class_weight": None,
            "loss_": "squared",
            "offsets_": 0.0,
        },
        lambda old: {**old, "partitions_": None, "weights_": None},
    ],
    "AutoKernelRegressor": [
        lambda old: {**old, "quality": "best", "log_target_": None, "residuals_": None},
        lambda old: {**old, "partitions_": None, "weights_": None, "tree_log_target_": None},
    ],
    "GaussianProcessClassifier": [lambda old: {**old, "engine": "exact", "n_inducing": None}],
}


@functools.cache
def _public() -> dict[str, Any]:
    """The estimators and kernels, by the names that users write."""
    found: dict[str, Any] = {}
    for module in (auto, estimators):
        found |= {name: getattr(module, name) for name in module.__all__}
    for name in kernels.__all__:
        value = getattr(kernels, name)
        if isinstance(value, type) and kernels.REGISTRY.get(name) is value:
            found[f"kernel.{name}"] = value
    return {RENAMED.get(name, name): value for name, value in found.items()}


@functools.cache
def _places() -> dict[str, tuple[str, str]]:
    """For each other id, the module a thing is in and what it is called there."""
    places = {
        name: (module, attribute)
        for table in (PARTS, PRIVATE)
        for module, ids in table.items()
        for name, attribute in ids.items()
    }
    for name in SCIKIT_LEARN:
        module, _, attribute = name.rpartition(".")
        places[name] = (module, attribute)
    return places


@functools.cache
def ids() -> frozenset[str]:
    """All ids, of methods too."""
    return frozenset([*_public(), *_places(), *METHODS])


def named(name: Any) -> Any:
    """The class or function of that id, or a ValueError."""
    if isinstance(name, str):
        if name in _public():
            return _public()[name]
        if name in _places():
            module, attribute = _places()[name]
            return getattr(importlib.import_module(module), attribute)
    raise unlisted(name)


def unlisted(name: Any) -> ValueError:
    """That a file names something else."""
    shown = name[:80] if isinstance(name, str) else type(name).__name__
    return ValueError(f"it names {shown!r}, which is none of the classes a file may hold")


def name_of(thing: Any) -> str | None:
    """The id of a class or function; None where it is not listed."""
    for name, cls in _public().items():
        if cls is thing:
            return name
    for name, (module, attribute) in _places().items():
        # What is not imported has no objects to save.
        if module in sys.modules and getattr(sys.modules[module], attribute, None) is thing:
            return name
    return None


@functools.lru_cache(maxsize=1024)
def class_name(cls: type) -> str | None:
    """`name_of` a class."""
    return name_of(cls)


# Versions and attributes.


@functools.cache
def _declared() -> dict[str, list[list[str]]]:
    """For each id, the attributes of each of its versions."""
    return json.loads((files("mercer.persistence") / "attributes.json").read_text())


def version(name: str) -> int:
    """The version of a thing that this library writes."""
    return len(_declared()[name])


def attributes(name: str, at: int | None = None) -> frozenset[str]:
    """What objects of a version may have, of the last one if it is not said.

    Of scikit-learn's classes, and of what ours have from there, the release that is installed has
    a say too.
    """
    return _attributes(name, version(name) if at is None else at)


@functools.lru_cache(maxsize=1024)
def _attributes(name: str, at: int) -> frozenset[str]:
    theirs = [base for base in named(name).__mro__ if base.__module__.startswith("sklearn.")]
    return frozenset(_declared()[name][at - 1]).union(*map(_stored, theirs))


def upgraded(name: str, at: int, state: Attributes) -> Attributes:
    """The attributes of an object of an earlier version, as the last one has them."""
    for upgrade in UPGRADES.get(name, [])[at - 1 :]:
        state = upgrade(state)
    return state


@functools.lru_cache(maxsize=256)
def _stored(cls: type) -> frozenset[str]:
    """The names of attributes that the methods of a class set, of whatever object."""
    return frozenset(
        step.argval
        for held in vars(cls).values()
        for code in _codes(held)
        for step in dis.get_instructions(code)
        if step.opname == "STORE_ATTR"
    )


def _codes(held: Any) -> Iterator[CodeType]:
    """The code of a method, and of what is defined in it."""
    for way in ("fget", "__func__", "fn"):  # properties, class methods, and available_if
        held = getattr(held, way, held)
    todo = [getattr(inspect.unwrap(held), "__code__", None)] if callable(held) else []
    while todo:
        code = todo.pop()
        if isinstance(code, CodeType):
            yield code
            todo += code.co_consts


def is_theirs(name: str) -> bool:
    """Whether an id is of scikit-learn's."""
    return _places().get(name, ("", ""))[0].startswith("sklearn.")
