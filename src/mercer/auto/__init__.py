"""Models without choices to make: kernel, scales and regulariser found from the data."""

from mercer.auto.classification import AutoKernelClassifier
from mercer.auto.feature_learning import RecursiveFeatureMachine
from mercer.auto.partitions import BoostedPartitions
from mercer.auto.regression import AutoKernelRegressor
from mercer.auto.stacking import LeaveOneOutStacking

__all__ = [
    "AutoKernelClassifier",
    "AutoKernelRegressor",
    "BoostedPartitions",
    "LeaveOneOutStacking",
    "RecursiveFeatureMachine",
]
