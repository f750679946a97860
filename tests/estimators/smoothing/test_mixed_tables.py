"""Numbers and sequences of one table in one kernel: fitted, searched over, pickled."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV

from mercer import SVC
from mercer import kernels as K

pd = pytest.importorskip("pandas")


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    sequences = ["".join(rng.choice(list("ACGT"), size=20)) for _ in range(80)]
    columns = {"age": rng.normal(size=80), "dose": rng.normal(size=80), "sequence": sequences}
    X = pd.DataFrame(columns)
    return X, np.array(["ACG" in x for x in sequences]) ^ (X.age.to_numpy() > 1)


def kernel():
    return K.RBF(0.1).on(["age", "dose"]) + 0.5 * K.Spectrum(4).normalize().on("sequence")


def test_a_sum_over_columns_equals_the_sum_of_its_parts(table):
    X, y = table
    parts = K.RBF(0.1)(X[["age", "dose"]]), K.Spectrum(4).normalize()(list(X.sequence))
    gram = parts[0] + 0.5 * parts[1]
    assert_allclose(kernel()(X), gram, rtol=1e-13)
    model = SVC(kernel=kernel()).fit(X, y)
    given = SVC(kernel="precomputed").fit(gram, y)
    assert_allclose(model.decision_function(X), given.decision_function(gram), atol=1e-9)
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.decision_function(X), model.decision_function(X))
    unknown = X[:1].assign(sequence="NNNNNN")
    assert np.isfinite(model.decision_function(unknown)).all()


def test_every_part_is_within_reach_of_a_search(table):
    X, y = table
    grid = {"kernel__left__kernel__gamma": [0.01, 1.0], "kernel__right__left__value": [0.5, 5.0]}
    grid["kernel__right__right__kernel__kernel__k"] = [2, 3]
    search = GridSearchCV(SVC(kernel=kernel()), grid, cv=3, error_score="raise").fit(X, y)
    best = search.best_params_
    fitted = search.best_estimator_.kernel_
    assert fitted.right.right.kernel.kernel.k == best["kernel__right__right__kernel__kernel__k"]
    assert len(set(search.cv_results_["mean_test_score"])) > 1
