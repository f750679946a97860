"""check_kernel and the kernels given by the user."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mercer import check_kernel
from mercer import kernels as K

RNG = np.random.default_rng(0)
X = RNG.normal(size=(15, 3))


def test_kernels():
    report = check_kernel(K.RBF(), X)
    assert report.valid is True
    assert report.min_eigenvalue == pytest.approx(np.linalg.eigvalsh(K.RBF()(X))[0], abs=1e-14)
    assert "Bochner" in str(report)
    refuted = check_kernel(K.Sigmoid(coef0=1.0))
    assert refuted.valid is False
    assert refuted.counterexample.eigenvalue == refuted.min_eigenvalue < 0
    assert "not a kernel" in str(refuted)


def test_callables_can_be_refuted_but_not_proved():
    assert check_kernel(lambda x, z: x @ z, X).valid is None
    report = check_kernel(lambda x, z: -float(np.linalg.norm(x - z)), X)
    assert report.valid is False
    small = report.counterexample
    assert len(small.points) <= 3
    assert np.linalg.eigvalsh(small.gram)[0] == pytest.approx(small.eigenvalue)
    with pytest.raises(ValueError, match=r"X is missing.*check_kernel\(f, X\)"):
        check_kernel(lambda x, z: 1.0)


def test_a_function_that_is_not_symmetric_is_refuted_by_two_points():
    report = check_kernel(lambda x, z: float(x[0] + 2 * z[0]), X)
    assert report.valid is False
    assert report.min_eigenvalue is None
    (x, z), gram = report.counterexample.points, report.counterexample.gram
    assert gram[0, 1] == pytest.approx(x[0] + 2 * z[0])
    assert gram[1, 0] == pytest.approx(z[0] + 2 * x[0])
    apart = np.abs(X[:, 0] - X[:, :1]).max()  # the worst pair
    assert abs(gram[0, 1] - gram[1, 0]) == pytest.approx(apart)
    assert "not a kernel: not symmetric: k(x, z) = " in str(report)
    assert report.counterexample.eigenvalue is None
    words = ["a", "bb", "ccc"]
    report = check_kernel(lambda x, z: float(len(x)), words)
    assert report.valid is False
    assert report.counterexample.points == ["a", "ccc"]
    assert check_kernel(K.FromFunction(lambda x, z: float(x[0]), valid=True), X).valid is False


def test_matrices_and_rounding():
    A = RNG.normal(size=(40, 3))
    singular = A @ A.T  # 37 eigenvalues that are zero, up to rounding of either sign
    assert check_kernel(singular).valid is True
    assert check_kernel(singular - 1e-3 * np.eye(40)).valid is False
    assert check_kernel(singular - 1e-11 * np.eye(40)).valid is None
    assert check_kernel(np.zeros((3, 3))).valid is True
    assert check_kernel([[1.0, 2.0], [2.0, 1.0]]).counterexample.eigenvalue == pytest.approx(-1)
    with pytest.raises(ValueError, match="square"):
        check_kernel(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"entries \(0, 1\) and \(1, 0\)"):
        check_kernel([[1.0, 2.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="missing value"):
        check_kernel([[np.nan]])


def test_float32_matrices_are_judged_in_float64():
    A = np.eye(1000, dtype=np.float32)
    A[0, 0] = -1e-3
    assert K.FromMatrix(A).validity.status == "indefinite"
    report = check_kernel(A)
    assert report.valid is False
    assert report.min_eigenvalue == pytest.approx(-1e-3)
    assert len(report.counterexample.points) == 1
    B = RNG.normal(size=(40, 3)).astype(np.float32)
    assert check_kernel(B @ B.T).valid is True
    A[0, 0] = -6e-5
    assert check_kernel(A).valid is None
    assert K.FromMatrix(A).validity.status == "unknown"


def test_a_matrix_and_its_kernel_agree_on_symmetry():
    for gap in (1e-3, 1e-9, 1e-13):
        A = [[1.0, gap], [0.0, 1.0]]
        symmetric = gap < 1e-12
        for check in (check_kernel, lambda A: K.FromMatrix(A).validity):
            if symmetric:
                check(A)
            else:
                with pytest.raises(ValueError, match=r"entries \(0, 1\) and \(1, 0\)"):
                    check(A)


NOTHING = [
    K.Polynomial(2) - 2 * K.Linear() - 1 - K.Linear() ** 2,
    K.Linear() * K.Linear() * K.Linear() - K.Linear() ** 3,
    (K.Linear() + 1) * (K.Linear() + 1) - K.Linear() ** 2 - 2 * K.Linear() - 1,
    K.RBF() * (K.Linear() + 1) - K.RBF() * K.Linear() - K.RBF(),
    (K.RBF() * (K.Linear() + 1) - K.RBF() * K.Linear() - K.RBF()) * K.Matern(),
    K.RBF(0.25) - K.RBF(scales=[2.0, 2.0, 2.0]),
    K.Conjunction() - K.Linear().on([0]) - 1,  # valid, but in one dimension nothing
]


@pytest.mark.parametrize("kernel", NOTHING, ids=repr)
def test_rounding_noise_is_not_a_counterexample(kernel):
    for size in (1e-4, 1.0, 100.0):
        assert check_kernel(kernel, size * X).valid is not False
    assert kernel.validity.status != "indefinite"


def test_what_cancels_to_a_kernel_is_not_refuted():
    for size in (1e-6, 1e-4, 1.0):
        assert check_kernel(K.Polynomial(2) - 2 * K.Linear() - 1, size * X).valid is True
    assert (K.Conjunction() - 1 - K.Linear()).validity.status == "unknown"
    assert check_kernel(K.Polynomial(2) - 3 * K.Linear() - 1, 1e-4 * X).valid is False
    assert check_kernel(K.Polynomial(2) - 3 * K.Linear() - 1).valid is False


def test_only_a_proof_outranks_the_gram():
    claimed = K.FromFunction(lambda x, z: -1.0, valid=True)
    for kernel in (claimed, 2.0 * claimed, claimed.on([0, 1])):
        assert kernel.validity.status == "valid"
        report = check_kernel(kernel, X)
        assert report.valid is False
        assert report.counterexample.eigenvalue < 0
    assert check_kernel(K.RBF(1e-9), X).valid is True


def test_a_gram_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match=r"points \(0, 2\)"):
        check_kernel(lambda x, z: np.nan if x[0] * z[0] == X[0, 0] * X[2, 0] else 1.0, X)


def test_a_failing_function_leaves_the_answer_unknown():
    def third(x, z):
        return x[2] * z[2] if len(x) > 2 else {}["no third feature"]

    assert (K.FromFunction(third) - K.RBF()).validity.status in ("unknown", "indefinite")
    for failing in (K.RBF().rescale(lambda X: 1 // 0), K.RBF().compose(lambda X: 1 // 0)):
        assert (failing - K.RBF()).validity.status == "unknown"


def test_the_search_has_as_many_features_as_scales():
    found = (-1 * K.RBF(scales=[1] * 10)).validity
    assert found.status == "indefinite"
    assert found.counterexample.points.shape[1] == 10


def test_a_function_of_rows_takes_tables():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for kernel in (
        K.FromFunction(lambda x, z: float(x @ z)),
        K.FromFunction(lambda A, B: np.asarray(A) @ np.asarray(B).T, pairwise=False),
    ):
        np.testing.assert_allclose(kernel(frame), X @ X.T)
        np.testing.assert_allclose(kernel.diag(frame), (X * X).sum(axis=1))


def test_a_matrix_gives_a_kernel_on_its_indices():
    A = RNG.normal(size=(6, 3))
    kernel = K.FromMatrix(A @ A.T)
    assert kernel.validity.status == "valid"
    index = [5, 0, 0]
    np.testing.assert_allclose(kernel(index), (A @ A.T)[np.ix_(index, index)])
    phi = kernel.feature_map().fit(index)
    assert phi.n_features_out_ == 3
    np.testing.assert_allclose(phi.transform([0, 4]) @ phi.transform([2]).T, kernel([0, 4], [2]))
    assert K.FromMatrix([[1.0, 2.0], [2.0, 1.0]]).validity.status == "indefinite"
    with pytest.raises(ValueError, match=r"outside 0\.\.5"):
        kernel([6])
    with pytest.raises(ValueError, match=r"^Y has an index outside 0\.\.5"):
        kernel([0], [7])
    with pytest.raises(ValueError, match="integer"):
        kernel([0.5])
    for wrong in (["a"], [None], [True], [[0, 1]]):
        with pytest.raises((TypeError, ValueError), match=r"^Y must hold integer"):
            kernel([0], wrong)
    with pytest.raises(ValueError, match="symmetric"):
        K.FromMatrix([[1.0, 2.0], [0.0, 1.0]])([0])


def test_functions_and_features():
    by_pairs = K.FromFunction(lambda x, z: float(x @ z))
    by_sets = K.FromFunction(lambda A, B: A @ B.T, pairwise=False, valid=True)
    np.testing.assert_allclose(by_pairs(X), by_sets(X))
    np.testing.assert_allclose(by_sets.diag(X), K.Linear().diag(X))
    assert by_pairs.validity.status == "unknown"
    assert by_sets.validity.status == "valid"
    assert K.FromFunction(lambda x, z: 1.0, valid=False).validity.status == "unknown"
    with pytest.raises(ValueError, match="two single points"):
        K.FromFunction(lambda A, B: 1.0, pairwise=False)(X)
    with pytest.raises(ValueError, match="one row for each"):
        K.FromFeatures(lambda X: X[:2])(X)
    with pytest.raises(TypeError, match="phi must be"):
        K.FromFeatures(3)(X)


def test_precomputed():
    Gram = K.RBF()(X)
    np.testing.assert_array_equal(K.Precomputed()(Gram), Gram)
    np.testing.assert_array_equal(K.Precomputed().diag(Gram), np.ones(15))
    with pytest.raises(ValueError, match="square"):
        K.Precomputed()(Gram[:3])
    assert K.Precomputed()(Gram[:3], X).shape == (3, 15)


def test_a_kernel_written_as_text_is_to_be_parsed():
    with pytest.raises(TypeError, match=r"the text 'RBF\(\)'; pass a kernel, or kernels.parse"):
        check_kernel("RBF()")
    assert check_kernel(K.parse("RBF()")).valid is True


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_objects_are_named_with_their_place(missing):
    for kernel in (K.Spectrum(2), K.Subtree(), K.SetIntersection(), K.WeisfeilerLehman()):
        with pytest.raises(
            ValueError, match=r"X has a missing value \((None|nan|<NA>)\) at row 0;"
        ):
            kernel([missing])
    table = pd.DataFrame({"age": [1.0, 2.0], "name": ["abc", missing]})
    with pytest.raises(ValueError, match="at row 1, column 'name'"):
        (K.Spectrum(2).on("name") + K.RBF().on(["age"]))(table)


def test_what_a_class_claims_is_looked_at_too():
    class Wrong(K.RBF):
        """What its class says of it is not so."""

        def formula(self, s, p):
            return 1 - p.gamma * s.sqdist

    report = check_kernel(Wrong(), X)
    assert report.valid is False
    assert report.counterexample.eigenvalue < 0
    assert "against its claim" in report.message
    assert "Bochner" not in str(report)
    K.REGISTRY.pop("Wrong")


def test_a_function_of_all_pairs_is_told_from_one_of_two_points():
    with pytest.raises(TypeError, match=r"shape \(3, 3\) for two points.*pairwise=False"):
        check_kernel(np.outer, X)
    one = check_kernel(lambda x, z: np.array([[x @ z]]), X)
    assert one.valid is None


def test_a_class_without_its_parts_says_so():
    class Nothing(K.Kernel):
        pass

    with pytest.raises(NotImplementedError, match=r"Nothing must define build.*VectorKernel"):
        Nothing()(X)
    with pytest.raises(NotImplementedError, match="Nothing must define judge"):
        Nothing().validity  # noqa: B018
    K.REGISTRY.pop("Nothing")
