"""Where pytest does not look for examples: in kernels of Triton, which not every machine has.

Where one has it, tests say first whether it is to interpret them.
"""

collect_ignore = ["src/mercer/core/triton_sets.py"]
