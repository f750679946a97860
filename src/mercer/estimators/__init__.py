"""scikit-learn estimators: validate, Gram operator, solver, fitted attributes."""

from mercer.estimators.clustering.centroid import KernelCentroidClassifier
from mercer.estimators.gaussian_process.classification import GaussianProcessClassifier
from mercer.estimators.gaussian_process.regression import GaussianProcessRegressor
from mercer.estimators.gaussian_process.structure import StructureSearch
from mercer.estimators.machines.classification import KernelMachineClassifier
from mercer.estimators.machines.regression import KernelMachineRegressor
from mercer.estimators.online.perceptron import KernelPerceptron
from mercer.estimators.online.sgd import KernelSGDClassifier
from mercer.estimators.ridge.classification import KernelRidgeClassifier
from mercer.estimators.ridge.cross_validation import KernelRidgeCV
from mercer.estimators.ridge.regression import KernelRidge
from mercer.estimators.smoothing.density import KernelDensity
from mercer.estimators.smoothing.smoothers import (
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
)
from mercer.estimators.spectral.cca import KernelCCA
from mercer.estimators.spectral.pca import KernelPCA
from mercer.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

__all__ = [
    "SVC",
    "SVR",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
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
    "StructureSearch",
]
