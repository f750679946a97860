"""Derivatives that torch takes through kernels: by points, columns and hyperparameters."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from mercer import gram
from mercer import kernels as K
from mercer.arrays import as_numpy
from mercer.core.torch import slopes as tensor_slopes
from mercer.expressions import over, statistic
from naive_kernels import naive_cases, points
from tensor_devices import DEVICE, WAYS, tensor, torch, use

VECTORS = [k for k in naive_cases() if k.domain.is_vectors]
VECTORS = [k for k in VECTORS if type(k).__name__ not in ("FromFunction", "FromFeatures")]
COMPOSITES = [
    K.RBF(0.5) * K.Polynomial(2) + K.Linear(),
    K.Laplacian(0.2) * K.RBF(0.1) + 2.0,
    K.exp(K.Linear()).normalize(),
    (K.RBF(1.0) + K.Polynomial(2)).normalize(),
    2.0 * K.RBF(0.5, scales=[1.0, 2.0, 3.0]) ** 0.5 + K.Sigmoid(0.1, 0.2) ** 2,
    K.Cosine() * K.Periodic(2.0, 1.0),
    K.Matern(2.5).rescale(lambda P: 1 + P[:, 0] ** 2),
    K.RBF(0.3).compose(torch.tanh),
    K.RBF(0.3).on([0, 2]) + K.Min().compose(torch.exp),
]


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    use(request.param, monkeypatch)


def leaf(A, dtype=torch.float64):
    """A tensor by which derivatives are taken."""
    return tensor(np.asarray(A), dtype).requires_grad_()


def check(function, *given):
    return torch.autograd.gradcheck(function, given)


@pytest.mark.parametrize("kernel", VECTORS + COMPOSITES, ids=repr)
def test_matrices_and_products_by_everything(kernel, monkeypatch):
    use("torch", monkeypatch)
    rng = np.random.default_rng(0)
    draw = points if kernel in VECTORS else lambda kernel, n, rng: rng.normal(size=(n, 3))
    X, Y = (leaf(draw(kernel, n, rng)) for n in (4, 5))
    V, U = leaf(rng.normal(size=(5, 2))), leaf(rng.normal(size=4))
    assert check(kernel, X, Y)
    assert check(kernel, X)
    assert check(kernel.diag, X)
    assert check(lambda X, Y, V: gram(kernel, X, Y) @ V, X, Y, V)
    assert check(lambda X, Y, U: gram(kernel, X, Y).T @ U, X, Y, U)
    assert check(lambda X, V: gram(kernel, X) @ V, X, V[:4].detach().requires_grad_())
    assert check(lambda X, Y: gram(kernel, X, Y).rows([1, 3]), X, Y)


@pytest.mark.parametrize("kernel", [K.RBF(0.3), COMPOSITES[0], COMPOSITES[6]], ids=repr)
def test_kernels_of_triton_have_derivatives(kernel, monkeypatch):
    rng = np.random.default_rng(1)
    A, B, C = (rng.normal(size=shape) for shape in ((9, 3), (11, 3), (11, 2)))
    found = {}
    for way in WAYS:
        use(way, monkeypatch)
        X, Y, V = leaf(A), leaf(B), leaf(C)
        total = (gram(kernel, X, Y) @ V).sin().sum() + kernel(X).cos().sum()
        found[way] = [as_numpy(total), *map(as_numpy, torch.autograd.grad(total, (X, Y, V)))]
    for one, other in zip(*found.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kernel", [K.RBF(0.1), K.Exponential(0.5), K.Tanimoto()], ids=repr)
def test_slopes_are_those_of_numpys_differences(kernel, way):
    rng = np.random.default_rng(2)
    A, B, C, w = (rng.uniform(size=shape) for shape in ((6, 8), (7, 8), (7,), (6,)))
    X = leaf(A)
    found = torch.autograd.grad(gram(kernel, X, tensor(B)) @ tensor(C), X, tensor(w))[0]
    h, expected = 1e-6, np.empty_like(A)
    for place in np.ndindex(*A.shape):
        step = np.zeros_like(A)
        step[place] = h
        ends = [w @ (kernel(A + sign * step, B) @ C) for sign in (1, -1)]
        expected[place] = (ends[0] - ends[1]) / (2 * h)
    np.testing.assert_allclose(as_numpy(found), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("d", [3, 9])
@pytest.mark.parametrize(
    "kernel",
    [
        K.Exponential(0.7), K.Laplacian(0.7), K.Matern(0.5), K.Matern(1.5), K.Matern(2.5),
        K.RBF(0.7), K.RationalQuadratic(0.7), K.Chi2(0.7), K.Tanimoto(), K.Cosine(),
        K.Polynomial(2, 1.0, 0.0).normalize(),
    ],
    ids=repr,
)  # fmt: skip
def test_points_that_coincide_have_a_finite_slope(kernel, d, way):
    A = np.random.default_rng(3).uniform(size=(5, d))
    A[3], A[4] = A[1], 0.0
    X, Y = leaf(A), leaf(A[[1, 1, 4]])
    for value, by in ((kernel(X), X), (kernel(X, Y), X), (kernel(X, Y), Y)):
        slope = torch.autograd.grad(value.sum(), by)[0]
        assert bool(slope.isfinite().all())
    if kernel.is_isotropic:
        one = leaf(A[:1])
        assert not torch.autograd.grad(kernel(one).sum(), one)[0].any()
        assert not torch.autograd.grad(kernel(one, tensor(A[:1])).sum(), one)[0].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [3, 9])
def test_points_that_nearly_coincide_keep_the_digits_of_their_slope(d, dtype, way):
    rng = np.random.default_rng(4)
    A = 5 + rng.normal(size=(6, d))
    B = A + 1e-3 * rng.normal(size=(6, d))
    X, Y = tensor(A, dtype), tensor(B, dtype)
    given = [as_numpy(P).astype(float) for P in (X, Y)]
    difference = given[0][:, None] - given[1]
    values = np.exp(-3e5 * (difference**2).sum(axis=2))
    expected = (-6e5 * values[:, :, None] * difference).sum(axis=1)
    X = X.requires_grad_()
    slope = torch.autograd.grad(K.RBF(3e5)(X, Y).sum(), X)[0]
    # In float32 the distance of these points is rounded in its seventh digit, and the exponent is
    # about ten times as large as that of one.
    rtol = 1e-4 if dtype == torch.float32 else 1e-9
    np.testing.assert_allclose(as_numpy(slope), expected, rtol=0, atol=rtol * abs(expected).max())


@pytest.mark.parametrize("rows", [1, 4])
def test_slopes_are_summed_over_blocks_of_rows_and_no_matrix_is_stored(rows, monkeypatch):
    use("torch", monkeypatch)
    rng = np.random.default_rng(5)
    A, B, C = (rng.normal(size=shape) for shape in ((30, 6), (40, 6), (40,)))
    kernel, seen = K.RBF(0.2) + K.Laplacian(0.1), []

    def slopes():
        X, Y, V = leaf(A), leaf(B), leaf(C)
        return [as_numpy(g) for g in torch.autograd.grad(
            (gram(kernel, X, Y) @ V).sum(), (X, Y, V))]  # fmt: skip

    expected, pulled = slopes(), tensor_slopes.pulled
    alive = tensor_slopes.ALIVE + tensor_slopes.KEPT * (2 + 4)
    monkeypatch.setattr(tensor_slopes, "BLOCK_BYTES", alive * 8 * 40 * rows)
    monkeypatch.setattr(
        tensor_slopes, "pulled", lambda leaf, at, S: seen.append(len(S)) or pulled(leaf, at, S)
    )
    for found, wanted in zip(slopes(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)
    assert 1 <= max(seen) <= rows + 3 < 30


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (lambda g: K.RBF(g), (0.4,)),
        (lambda s: K.RBF(0.4, scales=s), ([0.5, 1.0, 2.0],)),
        (lambda g, c: K.Polynomial(2, g, c).normalize(), (0.4, 0.7)),
        (lambda p, h, s: K.Periodic(p, h, scales=s), (1.7, 0.8, [0.5, 1.0, 2.0])),
        (lambda a, g: a * K.RBF(g) + K.RationalQuadratic(a, g) + g, (0.6, 0.3)),
        (lambda h: (K.Matern(1.5, h) * K.Linear()).normalize(), (1.3,)),
    ],
    ids=["gamma", "scales", "normalised", "periodic", "shared", "matern"],
)
def test_hyperparameters_that_are_tensors(make, given, monkeypatch):
    use("torch", monkeypatch)
    rng, theta = np.random.default_rng(6), [leaf(v) for v in given]
    X, Y, V = leaf(rng.normal(size=(4, 3))), leaf(rng.normal(size=(5, 3))), tensor(np.arange(5.0))
    plain = make(*given)
    np.testing.assert_allclose(as_numpy(make(*theta)(X, Y)), as_numpy(plain(X, Y)), rtol=1e-13)
    assert repr(make(*theta)) == repr(plain)
    assert check(lambda X, Y, *theta: make(*theta)(X, Y), X, Y, *theta)
    assert check(lambda X, Y, *theta: gram(make(*theta), X, Y, store=False) @ V, X, Y, *theta)
    assert check(lambda *theta: gram(make(*theta), Y.detach()) @ V, *theta)
    assert check(lambda *theta: gram(make(*theta), X.detach(), Y.detach()).T @ V[:4], *theta)
    assert check(lambda *theta: make(*theta).diag(X.detach()), *theta)


def test_hyperparameters_by_kernels_of_triton(way):
    X, gamma = np.random.default_rng(7).normal(size=(9, 3)), leaf(0.4)
    kernel = K.RBF(0.4)
    value = (gram(K.RBF(gamma), tensor(X)) @ tensor(X[:, 0])).sum() + K.RBF(gamma)(tensor(X)).sum()
    slope = kernel.gradient(X)["gamma"]
    expected = (slope @ X[:, 0]).sum() + slope.sum()
    assert float(torch.autograd.grad(value, gamma)[0]) == pytest.approx(expected, rel=1e-11)


def test_hyperparameters_that_have_no_derivative_are_refused():
    X, t = np.zeros((3, 2)), leaf(2.0)
    with pytest.raises(TypeError, match=r"exponent is a tensor .* no derivative by it"):
        (K.RBF() ** t)(tensor(X))
    for ask in (lambda: K.RBF(t)(X), lambda: gram(K.RBF(t), X)):
        with pytest.raises(TypeError, match=r"gamma is a tensor .* and X is a ndarray"):
            ask()
    with pytest.raises(ValueError, match="The 'gamma' parameter of RBF must be"):
        K.RBF(leaf(-1.0))(tensor(X))
    with pytest.raises(ValueError, match=r"scales=.* of RBF: expected positive"):
        K.RBF(scales=leaf([1.0, -1.0]))(tensor(X))


def test_tensors_that_functions_close_over():
    w, X = leaf([[0.3, -0.2], [0.1, 0.7]]), tensor(np.random.default_rng(8).normal(size=(5, 2)))
    assert check(lambda w: K.RBF(0.5).compose(lambda P: P @ w)(X), w)
    assert check(lambda w: gram(K.RBF(0.5).compose(lambda P: P @ w), X) @ X, w)
    assert check(lambda w: K.Linear().rescale(lambda P: (P @ w)[:, 0])(X), w)
    plain = gram(K.RBF(0.5).compose(torch.tanh), X)
    assert plain.reason.startswith("stored")
    assert not (plain @ X).requires_grad


@pytest.mark.parametrize("log_k", [-0.5 * statistic("sqdist"), statistic("dot")], ids=str)
def test_logarithms_of_sums(log_k, way):
    rng = np.random.default_rng(9)
    X, Y, w = (leaf(rng.normal(size=shape)) for shape in ((3, 2), (4, 2), 4))
    assert check(lambda X, Y, w: over(log_k, X, Y).log_sum_exp(w), X, Y, w)
    nothing = over(log_k, X, Y).log_sum_exp(torch.full((4,), -torch.inf, device=DEVICE))
    assert not torch.autograd.grad(nothing.sum(), X)[0].any()


def test_each_result_has_a_graph_of_its_own(way):
    rng = np.random.default_rng(10)
    X, V = leaf(rng.normal(size=(6, 5))), tensor(rng.normal(size=6))
    operator = gram(K.Matern(1.5), X)
    assert "torch may ask for derivatives" in operator.reason
    once = torch.autograd.grad((operator @ V).sum(), X)[0]
    assert bool((torch.autograd.grad((operator @ V).sum(), X)[0] == once).all())
    with torch.no_grad():
        assert not (operator @ V).requires_grad
        assert not K.RBF()(X).requires_grad
        assert gram(K.RBF(), X).reason.startswith("stored")
    assert not (gram(K.RBF(), X.detach()) @ V).requires_grad


def test_derivatives_of_operators_that_are_derivatives():
    rng = np.random.default_rng(11)
    X, Y, V = (leaf(rng.normal(size=shape)) for shape in ((4, 3), (5, 3), (5,)))
    for kernel, path in (
        (K.RBF(0.3, scales=[1.0, 2.0, 3.0]), "scales"),
        (K.Laplacian(0.3, scales=[1.0, 2.0, 3.0]), "scales"),
        (K.Polynomial(2), "coef0"),
    ):
        assert check(lambda X, Y, V, k=kernel, p=path: gram(k, X, Y).derivative(p) @ V, X, Y, V)


def test_what_torch_func_may_ask_for(way):
    rng = np.random.default_rng(12)
    X, Y, V = (tensor(rng.normal(size=shape)) for shape in ((6, 5), (4, 5), (4,)))
    kernel = K.Matern(1.5, 2.0)

    def f(X):
        return (gram(kernel, X, Y) @ V).square().sum()

    live = X.clone().requires_grad_()
    expected = torch.autograd.grad(f(live), live)[0]
    torch.testing.assert_close(torch.func.grad(f)(X), expected)
    by_columns = torch.func.grad(lambda V: (gram(kernel, X, Y) @ V).sum())(V)
    torch.testing.assert_close(by_columns, kernel(X, Y).sum(0))
    created = torch.autograd.grad(f(live), live, create_graph=True)[0]
    torch.testing.assert_close(created, expected)
    with pytest.raises(RuntimeError, match="a second derivative of a kernel was asked for"):
        torch.autograd.grad(created.sum(), live)
    with pytest.raises(RuntimeError, match="a second derivative of a kernel was asked for"):
        torch.func.grad(lambda X: torch.func.grad(f)(X).sum())(X)
    for ask in (
        lambda: torch.func.vmap(lambda x: kernel(x[None], Y)[0])(X),
        lambda: torch.func.vmap(lambda y: kernel(X, y[None]))(Y),
        lambda: torch.func.vmap(lambda v: gram(kernel, X, Y) @ v)(torch.stack([V, V])),
        lambda: torch.func.vmap(lambda v: gram(kernel, X, Y, store=False) @ v)(V.expand(2, 4)),
        lambda: torch.func.jacrev(lambda X: kernel(X, Y))(X),
    ):
        with pytest.raises(TypeError, match=r"torch\.func\.vmap .* does not go through kernels"):
            ask()
    for ask in (
        lambda: torch.func.jvp(f, (X,), (X,)),
        lambda: torch.func.jacfwd(lambda X: kernel(X, Y))(X),
        lambda: torch.func.jvp(lambda V: gram(kernel, X, Y) @ V, (V,), (V,)),
        lambda: torch.func.hessian(f)(X),
    ):
        with pytest.raises(RuntimeError, match="forward-mode derivatives of a kernel"):
            ask()


def test_complex_columns_have_slopes_by_both_parts():
    rng = np.random.default_rng(13)
    X = leaf(rng.normal(size=(4, 2)))
    V = tensor(rng.normal(size=4) + 1j * rng.normal(size=4)).requires_grad_()
    assert check(lambda X, V: gram(K.RBF(), X) @ V, X, V)


def test_float32_has_the_slopes_of_float32(way):
    rng = np.random.default_rng(14)
    A, B, C = (rng.normal(size=s).astype(np.float32) for s in ((20, 7), (30, 7), (30,)))
    slopes = []
    for dtype in (torch.float32, torch.float64):
        X, Y, V = (leaf(P, dtype) for P in (A, B, C))
        found = torch.autograd.grad((gram(K.RBF(0.1), X, Y) @ V).sum(), (X, Y, V))
        assert all(g.dtype == dtype for g in found)
        slopes.append([as_numpy(g) for g in found])
    for single, double in zip(*slopes, strict=True):
        np.testing.assert_allclose(single, double, rtol=0, atol=2e-6 * abs(double).max())
