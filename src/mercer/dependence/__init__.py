"""How alike two kernels see the same points, and whether two samples differ."""
