"""Models without choices to make: kernel, scales and regulariser found from the data."""

from mercer.auto.classification import AutoKernelClassifier
from mercer.auto.partitions import BoostedPartitions
from mercer.auto.regression import AutoKernelRegressor

__all__ = ["AutoKernelClassifier", "AutoKernelRegressor", "BoostedPartitions"]
