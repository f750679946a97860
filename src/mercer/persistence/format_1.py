"""Version 1 of the format, whose files stay readable: classes had names by where they were.

Its files are read as those of version 2 once ids stand in place of the names. Nothing here changes
when the code does, and nothing is ever added.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mercer.persistence.registry import PLACES, unlisted

# For each module as it was called then, the names there and their ids now.
NAMES = {
    "mercer.auto.tables": {
        "TableCoding": "coding.Table",
    },
    "mercer.estimators.columns": {
        "ColumnCoding": "coding.Columns",
    },
    "mercer.estimators.ridge_nystrom": {
        "Centres": "ridge.Centres",
    },
    "mercer.estimators.supports": {
        "Box": "density.Box",
    },
    "mercer.estimators.views": {
        "KernelView": "cca.View",
    },
    "mercer.expressions.nodes": {
        "Add": "expression.Add",
        "Constant": "expression.Constant",
        "Divide": "expression.Divide",
        "Function": "expression.Function",
        "Multiply": "expression.Multiply",
        "Power": "expression.Power",
        "Statistic": "expression.Statistic",
    },
    "mercer.expressions.views": {
        "View": "expression.View",
    },
    "mercer.kernels.approximations": {
        "FourierMap": "map.Fourier",
        "NystromMap": "map.Nystrom",
        "SketchMap": "map.Sketch",
    },
    "mercer.kernels.densities": {
        "FunctionKernel": "smoothing.Function",
    },
    "mercer.kernels.distance": {
        "_Envelope": "map.Envelope",
    },
    "mercer.kernels.feature_maps": {
        "ComposedMap": "map.Composed",
        "ConjunctionMap": "map.Conjunction",
        "ConstantMap": "map.Constant",
        "FunctionMap": "map.Function",
        "IdentityMap": "map.Identity",
        "MatrixMap": "map.Matrix",
        "MonomialMap": "map.Monomial",
        "ProductMap": "map.Product",
        "RescaledMap": "map.Rescaled",
        "SumMap": "map.Sum",
        "UnaryMap": "map.Unary",
    },
    "mercer.kernels.graph_kernels": {
        "BinVocabulary": "vocabulary.Bins",
        "PathVocabulary": "vocabulary.Paths",
    },
    "mercer.kernels.graphs": {
        "Graph": "data.Graph",
    },
    "mercer.kernels.keys": {
        "KeyVocabulary": "vocabulary.Keys",
    },
    "mercer.kernels.sequences": {
        "Alphabet": "vocabulary.Alphabet",
    },
    "mercer.kernels.smoothing": {
        "BallPower": "smoothing.BallPower",
        "Biweight": "smoothing.Biweight",
        "Cosine": "smoothing.Cosine",
        "Epanechnikov": "smoothing.Epanechnikov",
        "Exponential": "smoothing.Exponential",
        "Gaussian": "smoothing.Gaussian",
        "Hypercube": "smoothing.Hypercube",
        "Tophat": "smoothing.Tophat",
        "Triangular": "smoothing.Triangular",
        "Triweight": "smoothing.Triweight",
    },
    "mercer.kernels.transformations": {
        "PickColumns": "map.PickColumns",
    },
    "mercer.kernels.trees": {
        "SubtreeVocabulary": "vocabulary.Subtrees",
        "Tree": "data.Tree",
    },
    "mercer.kernels.vocabulary": {
        "VocabularyMap": "map.Vocabulary",
        "WordVocabulary": "vocabulary.Words",
    },
    "mercer.operators.gram": {
        "CorrectedGram": "gram.Corrected",
        "DenseGram": "gram.Dense",
    },
    "mercer.solvers.canonical": {
        "CanonicalVariates": "cca.Variates",
    },
    "mercer.solvers.losses": {
        "Absolute": "loss.Absolute",
        "EpsilonInsensitive": "loss.EpsilonInsensitive",
        "Hinge": "loss.Hinge",
        "Huber": "loss.Huber",
        "Logistic": "loss.Logistic",
        "Poisson": "loss.Poisson",
        "Quantile": "loss.Quantile",
        "Squared": "loss.Squared",
        "SquaredHinge": "loss.SquaredHinge",
    },
    "mercer.solvers.nystrom": {
        "Moments": "nystrom.Moments",
        "NystromSolution": "nystrom.Solution",
        "Whitening": "nystrom.Whitening",
    },
    "mercer.solvers.pcg": {
        "PcgSolution": "pcg.Solution",
    },
    "mercer.solvers.perceptron": {
        "PerceptronState": "perceptron.State",
    },
    "mercer.solvers.primal": {
        "PrimalSolution": "primal.Solution",
    },
    "mercer.solvers.quadratic_program": {
        "Solution": "qp.Solution",
    },
    "mercer.solvers.result": {
        "Result": "solver.Result",
        "Status": "solver.Status",
    },
    "mercer.solvers.risk": {
        "Machine": "risk.Solution",
    },
    "mercer.solvers.softmax": {
        "Softmax": "loss.Softmax",
    },
    "mercer.solvers.span": {
        "Solution": "span.Solution",
    },
    "mercer.solvers.spectral": {
        "Eigenpairs": "spectral.Eigenpairs",
    },
    "sklearn.calibration": {
        "_CalibratedClassifier": "calibration.Classifier",
        "_SigmoidCalibration": "calibration.Sigmoid",
    },
}
# Estimators were called "mercer." and kernels "mercer.kernels." and these.
ESTIMATORS = [
    "AutoKernelClassifier",
    "AutoKernelRegressor",
    "KernelCCA",
    "KernelCentroidClassifier",
    "KernelDensity",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "KernelPCA",
    "KernelPerceptron",
    "KernelRidge",
    "KernelRidgeCV",
    "KernelRidgeClassifier",
    "KernelSGDClassifier",
    "LocalLinearRegressor",
    "NadarayaWatsonClassifier",
    "NadarayaWatsonRegressor",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "SVC",
    "SVR",
]
KERNELS = [
    "Chi2",
    "Composed",
    "Conjunction",
    "Constant",
    "Cosine",
    "Exp",
    "Exponential",
    "FromFeatures",
    "FromFunction",
    "FromMatrix",
    "Gappy",
    "Graphlet",
    "Laplacian",
    "Linear",
    "Matern",
    "Min",
    "Mismatch",
    "Normalized",
    "OnColumns",
    "PartialTree",
    "Periodic",
    "Polynomial",
    "Power",
    "Precomputed",
    "Product",
    "Propagation",
    "RBF",
    "RandomWalk",
    "RationalQuadratic",
    "Rescaled",
    "SetConjunction",
    "SetIntersection",
    "SetJaccard",
    "ShortestPath",
    "Sigmoid",
    "Spectrum",
    "Subsequence",
    "SubsetTree",
    "Substring",
    "Subtree",
    "Sum",
    "Tanimoto",
    "WLOptimalAssignment",
    "WeightedDegree",
    "WeisfeilerLehman",
]
# What scikit-learn calls in public had that name, and has it still.
PUBLIC = [
    "sklearn.calibration.CalibratedClassifierCV",
    "sklearn.compose.ColumnTransformer",
    "sklearn.compose.TransformedTargetRegressor",
    "sklearn.impute.MissingIndicator",
    "sklearn.impute.SimpleImputer",
    "sklearn.kernel_approximation.PolynomialCountSketch",
    "sklearn.metrics.pairwise.additive_chi2_kernel",
    "sklearn.model_selection.KFold",
    "sklearn.model_selection.LeaveOneOut",
    "sklearn.model_selection.StratifiedKFold",
    "sklearn.pipeline.FeatureUnion",
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing.LabelEncoder",
    "sklearn.preprocessing.MaxAbsScaler",
    "sklearn.preprocessing.MinMaxScaler",
    "sklearn.preprocessing.Normalizer",
    "sklearn.preprocessing.OneHotEncoder",
    "sklearn.preprocessing.OrdinalEncoder",
    "sklearn.preprocessing.RobustScaler",
    "sklearn.preprocessing.StandardScaler",
]
METHODS = {
    "_factor": "method.envelope",
    "_in_scales": "method.scaled",
    "_mapped": "method.mapped",
    "embed": "method.embed",
}
IDS = {
    **{f"{module}.{name}": i for module, ids in NAMES.items() for name, i in ids.items()},
    **{f"mercer.{name}": name for name in ESTIMATORS},
    **{f"mercer.kernels.{name}": f"kernel.{name}" for name in KERNELS},
    **{name: name for name in PUBLIC},
}


def translated(header: dict[str, Any], records: list[Any]) -> None:
    """Put ids in place of names, and state the version of each class, which is the first."""
    found = set()
    for record, at, ids in _named(records):
        name = record[at]
        if not isinstance(name, str) or name not in ids:
            raise unlisted(name)
        record[at] = ids[name]
        found.add(ids[name])
    header["class"] = IDS.get(header["class"], header["class"])
    header["versions"] = dict.fromkeys(sorted(found), 1)


def _named(records: list[Any]) -> Iterator[tuple[list[Any], int, dict[str, str]]]:
    """Records with the name of a class, a function or a method; its place, and their ids."""
    for record in records:
        if isinstance(record, list) and record and isinstance(record[0], str):
            at = PLACES.get(record[0], len(record))
            if at < len(record):
                yield record, at, METHODS if record[0] == "method" else IDS
