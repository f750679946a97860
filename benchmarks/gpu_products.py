"""K(X, Y) V and its relatives on a GPU: Triton kernels beside torch's GEMM and exp, in one run.

    python benchmarks/gpu_products.py [usual composites ...] [--small] [--out FILE]

Times are medians of `triton.testing.do_bench`. Errors are against float64 on some rows, relative to
Σ|k||v|. Needs torch with a CUDA device, Triton, NumPy, SciPy and scikit-learn; not the native core.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.metadata
import json
import os
import sys
import time
import types
from pathlib import Path

os.environ.setdefault("MERCER_ISA", "python")
missing = []
for name in ("numpy", "scipy", "sklearn", "torch", "triton", "safetensors", "rich", "typer"):
    try:
        importlib.import_module(name)
    except ImportError:
        missing.append(name)
print("missing:", ", ".join(missing) or "nothing")

source = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(source))
try:
    import mercer  # noqa: F401
except ImportError as error:
    # The estimators want a newer scikit-learn than the kernels do.
    print(f"the package as a whole cannot be imported ({error}); its kernels are measured")
    package = types.ModuleType("mercer")
    package.__path__ = [str(source / "mercer")]
    for loaded in [m for m in sys.modules if m.partition(".")[0] == "mercer"]:
        del sys.modules[loaded]
    sys.modules["mercer"] = package

import numpy as np  # noqa: E402
import torch  # noqa: E402
from triton.testing import do_bench  # noqa: E402

from mercer import kernels as K  # noqa: E402
from mercer.core.triton.launches import Launch, launch_for  # noqa: E402
from mercer.expressions.tensors import TensorPairMatrix  # noqa: E402

RECORDS: list[dict] = []
ROWS = 512  # compared with float64


def milliseconds(f) -> float:
    return float(do_bench(f, warmup=20, rep=80, return_mode="median"))


def points(n: int, d: int, dtype, positive: bool = False) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(n + d)
    X = torch.randn((n, d), generator=generator, device="cuda", dtype=torch.float64)
    return (X.abs() if positive else X).to(dtype)


def torch_rbf(X, Y, V, gamma: float, rows: int = 8192):
    """GEMM, exp, GEMM on blocks of rows, with the norms as two more features."""
    one = torch.ones((len(Y), 1), dtype=Y.dtype, device=Y.device)
    B = torch.cat([Y, one, -gamma * (Y * Y).sum(1, keepdim=True)], 1).T.contiguous()
    A = torch.cat([2 * gamma * X, -gamma * (X * X).sum(1, keepdim=True), one[: len(X)]], 1)
    return torch.cat([(part @ B).exp_() @ V for part in A.split(rows)])


def exact(kernel, X, Y, V) -> tuple[torch.Tensor, torch.Tensor]:
    """K V and |K||V| on some rows in float64, by torch alone."""
    from mercer.core.torch.tiles import Tiles

    part, columns = X[:ROWS].double(), Y.double()
    pairs = TensorPairMatrix(kernel.expression(), part, columns)
    program = pairs.lowering
    tiles = Tiles(
        program.program,
        [pairs._leaf(node) for node in program.leaves],
        [pairs.side(t, 0) for t in program.row_terms],
        [pairs.side(t, 1) for t in program.column_terms],
        len(part),
        len(columns),
        X.device,
        torch.float64,
    )
    values = torch.cat([block for _, block in tiles.blocks()])
    return values @ V.double(), values.abs() @ V.double().abs()


def record(what: str, pairs: int, ms: float, error: float | None, **more) -> None:
    found = {"what": what, "T pairs/s": round(pairs / ms / 1e9, 4), "ms": round(ms, 3)}
    if error is not None:
        found["error"] = float(f"{error:.2g}")
    found.update(more)
    RECORDS.append(found)
    print(json.dumps(found), flush=True)


def measure(what, kernel, n, d, *, dtype=torch.float32, c=1, launch=None, precision="fp16x3"):
    """One product: its time and its error."""
    positive = kernel.domain.name.startswith("non-negative")
    X, Y = points(n, d, dtype, positive), points(n + 1, d, dtype, positive)
    V = points(n + 1, c, dtype)
    try:
        pairs = TensorPairMatrix(kernel.expression(), X, Y, precision=precision)
        start = time.perf_counter()
        tiles = pairs.tiles()
        tiles.launch = launch
        found = tiles.product(V)
        torch.cuda.synchronize()
        first = time.perf_counter() - start
        expected, size = exact(kernel, X, Y, V)
        error = float(((found[:ROWS] - expected).abs() / size).max())
        ms = milliseconds(lambda: tiles.product(V))
        used = launch or launch_for(tiles.form)
        leaves = [f"{leaf.kind.name}/{leaf.width}/{leaf.features}" for leaf in tiles.form.leaves]
        shape = f"{used.rows}x{used.columns} w{used.warps} s{used.stages}"
        name = str(dtype).removeprefix("torch.")
        record(what, n * (n + 1), ms, error, d=d, c=c, dtype=name, precision=precision,
               launch=shape, leaves=" ".join(leaves), first_s=round(first, 2))  # fmt: skip
    except Exception as problem:
        print(f"{what} d={d} {launch}: {type(problem).__name__}: {str(problem)[:300]}", flush=True)


def peers(n: int) -> None:
    cases = [(d, 1 / d, torch.float32) for d in (3, 10, 100, 784)]
    for d, gamma, dtype in (*cases, (10, 0.1, torch.float64), (100, 0.5, torch.float32)):
        X, Y, V = points(n, d, dtype), points(n + 1, d, dtype), points(n + 1, 1, dtype)
        expected, size = exact(K.RBF(gamma), X, Y, V)
        found = torch_rbf(X, Y, V, gamma)
        error = float(((found[:ROWS] - expected).abs() / size).max())
        ms = milliseconds(lambda: torch_rbf(X, Y, V, gamma))
        name = str(dtype).removeprefix("torch.")
        record(f"torch RBF({gamma:.3g})", n * (n + 1), ms, error, d=d, dtype=name)
    measure("RBF(0.5), many features", K.RBF(0.5), n, 100)


def tune(n: int) -> None:
    """Layouts of the product."""
    cases = [(K.RBF(50.0), 3), (K.Laplacian(0.1), 3), (K.Laplacian(0.1), 10), (K.Chi2(0.1), 10),
             (K.Laplacian(0.1), 30), (K.Laplacian(0.01), 100)]  # fmt: skip
    for launch in ((64, 64, 4, 3), (64, 32, 4, 3), (128, 64, 8, 3), (64, 64, 4, 1)):
        for kernel, d in cases:
            measure(repr(kernel), kernel, n, d, launch=Launch(*launch))
    for launch in ((128, 128, 8, 3), (128, 128, 8, 4), (128, 128, 4, 3)):
        measure("RBF", K.RBF(1 / 784), n, 784, precision="tf32", launch=Launch(*launch))
    for launch in ((64, 64, 4, 3), (64, 32, 4, 3), (64, 64, 4, 1)):
        measure("Exponential", K.Exponential(0.1), n, 10, launch=Launch(*launch))
        measure("product", K.RBF(0.1) * K.Laplacian(0.1), n, 10, launch=Launch(*launch))


def usual(n: int) -> None:
    """The product as it is called, for many kernels."""
    for d in (3, 10, 30, 100, 784):
        measure("RBF", K.RBF(1 / d), n, d)
        measure("RBF", K.RBF(1 / d), n, d, precision="tf32")
    for d in (10, 100):
        measure("RBF", K.RBF(1 / d), n, d, dtype=torch.float64)
    for c in (2, 4, 8, 16, 64):
        measure("RBF", K.RBF(0.1), n, 10, c=c)
    measure("RBF", K.RBF(0.1), n, 10, c=16, dtype=torch.float64)
    leaves = [K.Linear(), K.Polynomial(2, 0.1), K.RBF(0.1), K.Laplacian(0.1), K.Exponential(0.1),
              K.Matern(2.5), K.RationalQuadratic(1.5, 2.0), K.Sigmoid(0.1), K.Conjunction(),
              K.Cosine(), K.Periodic(2.0, 1.0), K.Min(), K.Chi2(0.1), K.Tanimoto()]  # fmt: skip
    for kernel in leaves:
        measure(repr(kernel), kernel, n, 10)
    for kernel in (
        K.RBF(0.1) * K.Polynomial(2, 0.1) + K.Linear(),
        K.RBF(0.1) + K.RBF(1.0),
        K.RBF(0.1) * K.Laplacian(0.1),
        (K.RBF(0.1) + K.Polynomial(2, 0.1)).normalize(),
    ):
        measure(repr(kernel), kernel, n, 10)


def composites(n: int, draws: int = 20, seed: int = 2) -> None:
    """Three leaves drawn at random: each composite beside its slowest leaf, and all its leaves."""
    leaves = [K.Linear(), K.Polynomial(3, 0.1), K.RBF(0.1), K.Laplacian(0.1), K.Exponential(0.1),
              K.Matern(1.5, 1.0), K.Matern(2.5, 1.0), K.RationalQuadratic(1.5, 1.0),
              K.Sigmoid(0.1, 0.5), K.Conjunction(), K.Cosine(), K.Periodic(4.0, 10**0.5), K.Min(),
              K.Chi2(0.1), K.Tanimoto(), K.exp(0.1 * K.Linear())]  # fmt: skip
    rng, ratios, shares = np.random.default_rng(seed), [], []
    X, Y = (points(k, 10, torch.float32, positive=True) for k in (n, n + 1))
    V = points(n + 1, 1, torch.float32)

    def taken(kernel) -> float:
        tiles = TensorPairMatrix(kernel.expression(), X, Y).tiles()
        tiles.product(V)
        return milliseconds(lambda: tiles.product(V))

    alone = [taken(leaf) for leaf in leaves]
    for _ in range(draws):
        chosen = rng.choice(len(leaves), 3, replace=False)
        a, b, c = (leaves[i] for i in chosen)
        kernel = a * b + c if rng.random() < 0.5 else (a + b) * c
        ms = taken(kernel)
        taken_alone = [alone[i] for i in chosen]
        ratios.append(ms / max(taken_alone))
        shares.append(ms / sum(taken_alone))
        record(repr(kernel), n * (n + 1), ms, None, of_slowest_leaf=round(ratios[-1], 2),
               of_their_sum=round(shares[-1], 2))  # fmt: skip
    for what, found in (("its slowest leaf", ratios), ("the sum of its leaves", shares)):
        print(f"{draws} composites, beside {what}: worst {max(found):.2f}, "
              f"median {np.median(found):.2f}")  # fmt: skip


def others(n: int) -> None:
    """What is not a plain product: its time, and its error where it has one of its own."""
    for d, gamma in ((3, 0.5), (3, 50.0), (10, 0.1)):
        X, Y = points(n, d, torch.float32), points(n + 1, d, torch.float32)
        kernel = -gamma * statistic_expression()
        pairs = TensorPairMatrix(kernel, X, Y)
        part = TensorPairMatrix(kernel, X[:ROWS].double(), Y.double())
        error = float((pairs.log_sum_exp()[:ROWS] - part.log_sum_exp()).abs().max())
        ms = milliseconds(pairs.log_sum_exp)
        record(f"log-sum-exp, gamma {gamma}", n * (n + 1), ms, error, d=d)
    for dtype in (torch.float32, torch.float64):
        X = points(20_000, 10, dtype)
        pairs = TensorPairMatrix(K.RBF(0.1).expression(), X)
        ms = milliseconds(pairs.gram)
        found = pairs.gram()
        right = TensorPairMatrix(K.RBF(0.1).expression(), X.double(), X.double()).gram()
        error = float((found - right).abs().max())
        assert bool((found == found.T).all())
        name = str(dtype).removeprefix("torch.")
        record("Gram matrix", 20_000**2, ms, error, d=10, dtype=name)
        del found, right
    X, V = points(n, 10, torch.float32), points(n, 1, torch.float32)
    scales = np.linspace(1, 3, 10)
    for path, index in (("gamma", None), ("scales", 3), ("scales", None)):
        pairs = TensorPairMatrix(K.RBF(0.3, scales=scales).expression(), X).derivative(path, index)
        right = TensorPairMatrix(
            K.RBF(0.3, scales=scales).expression(), X[:ROWS].double(), X.double()
        )
        right = right.derivative(path, index).tiles().gram(False, None)
        found = pairs.products(V, V[:, :0])[0][:ROWS]
        size = right.abs() @ V.double().abs()
        error = float(((found - right @ V.double()).abs() / size).max())
        ms = milliseconds(lambda: pairs.products(V, V[:, :0]))
        record(f"derivative by {path} {index}", n * n, ms, error, d=10)
    pairs = TensorPairMatrix(K.RBF(0.1).expression(), X, X[: n // 2])
    U = points(n, 1, torch.float32)
    tiles = pairs.tiles()
    left = tiles.transposed_product(U)
    right = TensorPairMatrix(K.RBF(0.1).expression(), X[: n // 2][:ROWS].double(), X.double())
    values = right.tiles().gram(False, None)
    error = float(((left[:ROWS] - values @ U.double()).abs() / (values @ U.double().abs())).max())
    record("transposed", n * (n // 2), milliseconds(lambda: tiles.transposed_product(U)), error)


def statistic_expression():
    from mercer.expressions import statistic

    return statistic("sqdist")


def compilation(_: int) -> None:
    """A new hyperparameter or number of points must not compile anything."""
    for n, gamma in ((5000, 0.11), (5001, 0.12), (12_345, 0.7), (100_000, 0.1)):
        X, V = points(n, 10, torch.float32), points(n, 1, torch.float32)
        torch.cuda.synchronize()
        start = time.perf_counter()
        TensorPairMatrix(K.RBF(gamma).expression(), X).products(V, V[:, :0])
        torch.cuda.synchronize()
        seconds = round(time.perf_counter() - start, 4)
        print(json.dumps({"call after others": n, "gamma": gamma, "seconds": seconds}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    names = ["usual", "composites", "others", "compilation", "peers", "tune", []]
    parser.add_argument("parts", nargs="*", choices=names, help="all but tune")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    versions = {p: importlib.metadata.version(p) for p in ("torch", "triton", "numpy", "scipy",
                                                            "scikit-learn")}  # fmt: skip
    device = torch.cuda.get_device_name()
    print(json.dumps({"date": str(datetime.date.today()), "device": device, **versions}))
    n = 10_000 if options.small else 100_000
    parts = {part.__name__: part for part in (usual, composites, others, compilation, peers, tune)}
    for part in map(parts.get, options.parts or list(parts)[:-1]):
        start = time.perf_counter()
        try:
            part(n)
        except Exception as problem:
            print(f"{type(problem).__name__}: {str(problem)[:500]}", flush=True)
        print(f"-- {time.perf_counter() - start:.0f} s", flush=True)
    if options.out:
        options.out.write_text("\n".join(map(json.dumps, RECORDS)) + "\n")


if __name__ == "__main__":
    main()
