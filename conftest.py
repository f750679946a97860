"""Where pytest does not look for examples, and what it undoes after each.

Modules that import torch or Triton have no examples that are run: not every machine has them, and
tests say first whether Triton is to interpret its kernels.
"""

import pytest

collect_ignore = ["src/mercer/core/triton/working_sets.py", "src/mercer/core/torch/autograd.py"]


@pytest.fixture(autouse=True)
def kernels_of_examples(request):
    """A kernel class that an example defines is forgotten after it."""
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    from mercer import kernels

    known = dict(kernels.REGISTRY)
    yield
    kernels.REGISTRY.clear()
    kernels.REGISTRY.update(known)
