"""Kernel values of nearly equal points on a GPU, by number of features: errors beside torch's.

    python benchmarks/gpu_accuracy.py

For points A and B = A + 1e-3 noise, of d features each, the largest error of k(a_i, b_i) against
float64, of mercer's float32 kernels and of torch's float32 operations, and the time of a product
with 16,384 x 16,384 pairs. Needs torch with a CUDA device and Triton; not the native core.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("MERCER_ISA", "python")
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import torch
from triton.testing import do_bench

from mercer import kernels as K
from mercer.operators import gram

FEATURES = (30, 85, 100, 200, 784, 3000, 20_000)
# The last so many features are not timed.
UNTIMED = 1


def torch_values(A: torch.Tensor, B: torch.Tensor, gamma: float) -> torch.Tensor:
    """The diagonal of exp(-gamma d²), distances from norms and dot products, in float32."""
    squared = (A * A).sum(1) + (B * B).sum(1) - 2 * (A @ B.T).diagonal()
    return torch.exp(-gamma * squared.clamp(min=0))


def errors(d: int) -> tuple[float, float]:
    generator = torch.Generator("cuda").manual_seed(d)
    A = torch.randn(600, d, device="cuda", generator=generator)
    B = A + 1e-3 * torch.randn(600, d, device="cuda", generator=generator)
    exact = torch.exp(-((A.double() - B.double()) ** 2).sum(1) / d)
    ours = gram(K.RBF(1 / d), A, B, store=False).dense().diagonal()
    theirs = torch_values(A, B, 1 / d)
    return tuple(float((found.double() - exact).abs().max()) for found in (ours, theirs))


def milliseconds(d: int) -> float:
    n = 16_384
    X, Y = (torch.randn(n, d, device="cuda") for _ in range(2))
    v = torch.randn(n, 1, device="cuda")
    operator = gram(K.RBF(1 / d), X, Y, store=False)
    return float(do_bench(lambda: operator @ v, warmup=20, rep=60, return_mode="median"))


def main() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for d in FEATURES:
        ours, theirs = errors(d)
        took = "" if d in FEATURES[-UNTIMED:] else f"; product {milliseconds(d):7.3f} ms"
        ratio = ours / theirs
        print(f"d = {d:6}: error {ours:.1e}, torch {theirs:.1e}, ratio {ratio:5.2f}{took}")


if __name__ == "__main__":
    main()
