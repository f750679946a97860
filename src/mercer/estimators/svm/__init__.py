"""Support vector machines: LIBSVM's five problems with any kernel, each with its duality gap."""

from mercer.estimators.svm.classification import SVC
from mercer.estimators.svm.nu_classification import NuSVC
from mercer.estimators.svm.regression import SVR, NuSVR, OneClassSVM

__all__ = ["SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM"]
