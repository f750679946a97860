"""Models without choices to make: kernel, scales and regulariser found from the data."""

from mercer.auto.models import AutoKernelClassifier, AutoKernelRegressor
from mercer.auto.partitions import BoostedPartitions

__all__ = ["AutoKernelClassifier", "AutoKernelRegressor", "BoostedPartitions"]
