"""Where pytest does not look for examples: in modules that import torch or Triton.

Not every machine has them, and tests say first whether Triton is to interpret its kernels.
"""

collect_ignore = ["src/mercer/core/triton/working_sets.py", "src/mercer/core/torch/autograd.py"]
