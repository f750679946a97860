"""The classes that a file may hold, by the names they have in files.

The list is closed: a name that is not here is refused, and nothing is imported because a file says
so. A class that joins the library, and whose objects are part of a fitted model, joins the list.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

from mercer import auto, estimators, kernels
from mercer.kernels import Kernel

# Private or not, whatever fitted models are made of, by module.
PARTS = {
    "mercer.auto.sparse": ["SparseCoding"],
    "mercer.auto.tables": ["TableCoding"],
    "mercer.estimators.columns": ["ColumnCoding"],
    "mercer.estimators.ridge_nystrom": ["Centres"],
    "mercer.estimators.supports": ["Box"],
    "mercer.estimators.views": ["KernelView"],
    "mercer.expressions.nodes": [
        "Add",
        "Constant",
        "Divide",
        "Function",
        "Multiply",
        "Power",
        "Statistic",
    ],
    "mercer.expressions.views": ["View"],
    "mercer.kernels.approximations": ["FourierMap", "NystromMap", "SketchMap"],
    "mercer.kernels.densities": ["FunctionKernel"],
    "mercer.kernels.distance": ["_Envelope"],
    "mercer.kernels.feature_maps": [
        "ComposedMap",
        "ConjunctionMap",
        "ConstantMap",
        "FunctionMap",
        "IdentityMap",
        "MatrixMap",
        "MonomialMap",
        "ProductMap",
        "RescaledMap",
        "SumMap",
        "UnaryMap",
    ],
    "mercer.kernels.graph_kernels": ["BinVocabulary", "PathVocabulary"],
    "mercer.kernels.graphs": ["Graph"],
    "mercer.kernels.keys": ["KeyVocabulary"],
    "mercer.kernels.sequences": ["Alphabet"],
    "mercer.kernels.smoothing": [
        "BallPower",
        "Biweight",
        "Cosine",
        "Epanechnikov",
        "Exponential",
        "Gaussian",
        "Hypercube",
        "Tophat",
        "Triangular",
        "Triweight",
    ],
    "mercer.kernels.transformations": ["PickColumns"],
    "mercer.kernels.trees": ["SubtreeVocabulary", "Tree"],
    "mercer.kernels.vocabulary": ["VocabularyMap", "WordVocabulary"],
    "mercer.operators.gram": ["CorrectedGram", "DenseGram"],
    "mercer.solvers.canonical": ["CanonicalVariates"],
    "mercer.solvers.losses": [
        "Absolute",
        "EpsilonInsensitive",
        "Hinge",
        "Huber",
        "Logistic",
        "Poisson",
        "Quantile",
        "Squared",
        "SquaredHinge",
    ],
    "mercer.solvers.nystrom": ["Moments", "NystromSolution", "Whitening"],
    "mercer.solvers.pcg": ["PcgSolution"],
    "mercer.solvers.perceptron": ["PerceptronState"],
    "mercer.solvers.primal": ["PrimalSolution"],
    "mercer.solvers.quadratic_program": ["Solution"],
    "mercer.solvers.result": ["Result", "Status"],
    "mercer.solvers.risk": ["Machine"],
    "mercer.solvers.softmax": ["Softmax"],
    "mercer.solvers.span": ["Solution"],
    "mercer.solvers.spectral": ["Eigenpairs"],
}

# What stands before a model in a pipeline, and what our estimators hold. Searches and ensembles
# are not here: save their ``best_estimator_``.
SCIKIT_LEARN = {
    "sklearn.calibration": [
        "CalibratedClassifierCV",
        "_CalibratedClassifier",
        "_SigmoidCalibration",
    ],
    "sklearn.compose": ["ColumnTransformer", "TransformedTargetRegressor"],
    "sklearn.impute": ["MissingIndicator", "SimpleImputer"],
    "sklearn.kernel_approximation": ["PolynomialCountSketch"],
    "sklearn.model_selection": ["KFold", "LeaveOneOut", "StratifiedKFold"],
    "sklearn.pipeline": ["FeatureUnion", "Pipeline"],
    "sklearn.preprocessing": [
        "LabelEncoder",
        "MaxAbsScaler",
        "MinMaxScaler",
        "Normalizer",
        "OneHotEncoder",
        "OrdinalEncoder",
        "RobustScaler",
        "StandardScaler",
    ],
}

# Functions that the library's own names stand for.
FUNCTIONS = {"sklearn.metrics.pairwise": ["additive_chi2_kernel"]}

# Methods of kernels that their feature maps hold.
METHODS = ("_factor", "_in_scales", "_mapped", "embed")


@functools.cache
def _public() -> dict[str, type]:
    """The estimators and kernels, as users write them."""
    found: dict[str, type] = {}
    for module in (auto, estimators):
        found |= {f"mercer.{name}": getattr(module, name) for name in module.__all__}
    for name in kernels.__all__:
        value = getattr(kernels, name)
        if isinstance(value, type) and issubclass(value, Kernel):
            found[f"mercer.kernels.{name}"] = value
    return found


@functools.cache
def _places() -> dict[str, tuple[str, str]]:
    """For each other name, the module it is in and what it is called there."""
    tables = (PARTS, SCIKIT_LEARN, FUNCTIONS)
    return {
        f"{module}.{name}": (module, name)
        for table in tables
        for module, names in table.items()
        for name in names
    }


def named(name: Any) -> Any:
    """The class or function of that name, or a ValueError."""
    if isinstance(name, str):
        if name in _public():
            return _public()[name]
        if name in _places():
            module, attribute = _places()[name]
            return getattr(importlib.import_module(module), attribute)
    shown = name[:80] if isinstance(name, str) else type(name).__name__
    raise ValueError(f"it names {shown!r}, which is none of the classes a file may hold")


def name_of(thing: Any) -> str | None:
    """The name under which a class or function is saved; None where it is not listed."""
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
