"""The algebra: kernels with numbers, powers and functions, their parameters and how they look."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.base import clone

from mercer import SVC, KernelRidge
from mercer import kernels as K


@pytest.mark.parametrize(
    "kernel",
    [
        K.RBF(0.7, scales=[0.5, 2.0, 1.0]),
        K.Exponential(0.7, scales=[0.5, 2.0, 1.0]),
        K.Laplacian(0.7, scales=[0.5, 2.0, 1.0]),
        K.Matern(2.5, 1.2, scales=[0.5, 2.0, 1.0]),
        K.RationalQuadratic(0.6, 1.2, scales=[0.5, 2.0, 1.0]),
        K.Periodic(2.1, 0.9, scales=[0.5, 2.0, 1.0]),
        2.0 * K.RBF(0.3, scales=[0.5, 2.0, 1.0]) * K.Polynomial(2) + K.Linear(),
    ],
    ids=repr,
)
def test_gradients_with_respect_to_scales(kernel):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    gradients = kernel.gradient(X, Y)
    path = next(p for p in gradients if p.endswith("scales"))
    assert gradients[path].shape == (5, 4, 3)
    value = np.asarray(kernel.get_params()[path], dtype=float)
    for j in range(3):
        step = 1e-6 * np.eye(3)[j]
        moved = clone(kernel)
        up = moved.set_params(**{path: value + step})(X, Y)
        down = moved.set_params(**{path: value - step})(X, Y)
        np.testing.assert_allclose(gradients[path][:, :, j], (up - down) / 2e-6, atol=1e-7)
    same = kernel.gradient(X)[path]
    np.testing.assert_allclose(same, kernel.gradient(X, X)[path], atol=1e-12)


def test_numbers_combine_from_either_side():
    X = np.random.default_rng(0).normal(size=(4, 2))
    k, base = K.RBF(0.5), K.RBF(0.5)(X)
    cases = [
        (k + 2, base + 2),
        (2 + k, base + 2),
        (k - 0.5, base - 0.5),
        (1 - k, 1 - base),
        (3 * k, 3 * base),
        (k * 3, 3 * base),
        (np.float64(3) * k, 3 * base),
        (-k, -base),
        (sum([k, k, k]), 3 * base),
        (k**2, base**2),
        (k**0.5, base**0.5),
    ]
    for kernel, expected in cases:
        assert isinstance(kernel, K.Kernel)
        np.testing.assert_allclose(kernel(X), expected, rtol=1e-13)
    with pytest.raises(TypeError, match="cannot be combined with"):
        k + "linear"
    with pytest.raises(TypeError, match="cannot be combined with"):
        k * [1.0]


def test_rescaling_sees_the_points_the_kernel_sees():
    gaussian = K.exp(1.0 * K.Linear()).rescale(K.exp(-0.5 * K.sqnorm))
    whole = np.array([[200], [199]])
    np.testing.assert_allclose(gaussian(whole), K.RBF(0.5)(whole))
    np.testing.assert_allclose(gaussian([[1e8], [1e8 + 1]])[0, 1], np.exp(-0.5))
    rescaled = K.Linear().rescale(K.exp(-0.01 * K.sqnorm))
    phi = rescaled.feature_map().fit(whole)
    np.testing.assert_allclose(phi.transform(whole) @ phi.transform(whole).T, rescaled(whole))


def test_small_coefficients_are_kept():
    x = [[1.0]]
    for kernel, expected in (
        (K.Polynomial(2, gamma=1e-9), (1 + 1e-9) ** 2),
        (1e-9 * K.Linear() + 1, 1 + 1e-9),
        (K.exp(1e-9 * K.Linear() + 1), np.exp(1 + 1e-9)),
    ):
        np.testing.assert_allclose(kernel(x), expected, rtol=1e-15)


def test_traits():
    scaled = K.RBF(scales=[1.0, 2.0])
    assert K.RBF().is_stationary
    assert K.RBF().is_isotropic
    assert scaled.is_stationary
    assert not scaled.is_isotropic
    assert (K.RBF() * K.Matern() + 1).is_isotropic
    assert K.Periodic().is_stationary
    assert not K.Periodic().is_isotropic
    assert not (K.RBF() + K.Linear()).is_stationary
    assert not K.RBF().compose(np.abs).is_stationary


def test_exponentials_fuse_and_do_not_overflow():
    g = 0.3
    X = np.random.default_rng(0).normal(size=(8, 5)) * 100
    gaussian = K.exp(2 * g * K.Linear()).rescale(K.exp(-g * K.sqnorm))
    np.testing.assert_allclose(gaussian(X), K.RBF(g)(X), rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(K.exp(K.Linear()).normalize()(X), K.RBF(0.5)(X), rtol=1e-9)


def test_normalisation_is_zero_where_the_diagonal_is():
    X = np.array([[0.0, 0.0], [1.0, 2.0]])
    np.testing.assert_allclose(K.Linear().normalize()(X), [[0.0, 0.0], [0.0, 1.0]], rtol=1e-15)


def test_parameters_reach_inside_and_mutate():
    kernel = K.RBF(1.0) * K.Polynomial(2) + 3.0 * K.Linear()
    kernel.set_params(left__left__gamma=0.25, right__left__value=7.0)
    assert kernel.left.left.gamma == 0.25
    assert repr(kernel).endswith("+ 7.0 * Linear()")
    twin = clone(kernel).set_params(left__left__gamma=9.0)
    assert kernel.left.left.gamma == 0.25
    assert twin.left.left.gamma == 9.0


def test_functions_are_said_not_to_be_writable():
    for kernel in (K.RBF().compose(np.sin), K.RBF().rescale(np.ravel), K.FromFeatures(np.sin)):
        with pytest.raises(K.KernelSyntaxError, match="function"):
            K.parse(repr(kernel))


def test_functions_of_the_wrong_shape_are_named():
    X = np.ones((3, 2))
    with pytest.raises(ValueError, match="rescale returned shape"):
        K.RBF().rescale(lambda X: X)(X)
    with pytest.raises(ValueError, match="compose returned 1 points for 3"):
        K.RBF().compose(lambda X: X[:1])(X)
    with pytest.raises(TypeError, match="rescale needs a function"):
        K.RBF().rescale(3)(X)


def test_an_estimator_shows_its_kernel_as_it_is_written():
    kernel = K.RBF(10.0) + 0.1 * K.Linear()
    assert repr(SVC(kernel=kernel)) == "SVC(kernel=RBF(gamma=10.0) + 0.1 * Linear())"
    assert repr(KernelRidge(alpha=0.1, kernel=kernel.normalize() ** 2)) == (
        "KernelRidge(alpha=0.1,\n"
        "            kernel=(RBF(gamma=10.0) + 0.1 * Linear()).normalize() ** 2)"
    )
    assert "0.1 * Linear()" in SVC(kernel=kernel)._repr_html_()
    with sklearn.config_context(print_changed_only=False):
        assert f"kernel={kernel!r}" in repr(SVC(kernel=kernel))


def test_division_by_a_number_scales():
    X = np.eye(3)
    np.testing.assert_allclose((K.RBF() / 4)(X), K.RBF()(X) / 4)
    assert repr(K.RBF() / 2) == "0.5 * RBF(gamma=1.0)"
    for bad in (0, K.Linear(), "2", True):
        with pytest.raises(TypeError, match="cannot be divided by"):
            K.RBF() / bad
    with pytest.raises(TypeError):
        2 / K.RBF()


def test_a_number_taken_away_is_written_as_such():
    kernel = K.RBF() + K.Linear() - 0.5
    assert repr(kernel) == "RBF(gamma=1.0) + Linear() - 0.5"
    assert K.parse(repr(kernel)).key() == kernel.key()


class NamedTable:
    """The part of a table of polars that is used, and nothing else."""

    def __init__(self, values, columns):
        self.values, self.columns, self.shape = values, columns, values.shape

    def __getitem__(self, at):
        return self.values[at]


def test_columns_go_by_name_in_tables_that_are_not_of_pandas():
    values = np.random.default_rng(0).normal(size=(5, 3))
    table = NamedTable(values, ["a", "b", "c"])
    np.testing.assert_array_equal(K.RBF().on(["c", "a"])(table), K.RBF()(values[:, [2, 0]]))
    with pytest.raises(ValueError, match=r"no column 'd'; it has \['a', 'b', 'c'\]"):
        K.RBF().on(["d"])(table)
