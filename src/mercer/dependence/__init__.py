"""How alike two kernels see the same points, and whether two samples differ."""

from mercer.dependence.measures import centred_alignment, hsic, mmd

__all__ = ["centred_alignment", "hsic", "mmd"]
