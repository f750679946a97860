"""scikit-learn estimators: validate, Gram operator, solver, fitted attributes."""

from mercer.estimators.cca import KernelCCA
from mercer.estimators.centroid import KernelCentroidClassifier
from mercer.estimators.density import KernelDensity
from mercer.estimators.machines import KernelMachineClassifier, KernelMachineRegressor
from mercer.estimators.pca import KernelPCA
from mercer.estimators.perceptron import KernelPerceptron
from mercer.estimators.ridge import KernelRidge
from mercer.estimators.ridge_classification import KernelRidgeClassifier
from mercer.estimators.ridge_cv import KernelRidgeCV
from mercer.estimators.sgd import KernelSGDClassifier
from mercer.estimators.smoothers import (
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
)
from mercer.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

__all__ = [
    "SVC",
    "SVR",
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
]
