"""Where pytest does not look for examples: in kernels of Triton, which not every machine has."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["src/mercer/core/triton_sets.py"]
