"""LIBSVM's model files: what they mean is worked out here anew, number by number."""

from __future__ import annotations

import math
import os
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import mercer
from mercer import kernels as K

TRIES = 300 * int(os.environ.get("MERCER_TEST_LENGTH", "1"))
rng = np.random.default_rng(0)
X = np.where(rng.random((60, 4)) < 0.3, 0.0, rng.normal(size=(60, 4)))
NEW = rng.normal(size=(40, 4))
TWO = np.where(X[:, 0] + X[:, 1] ** 2 > 0.3, 5, -3)
FOUR = np.array([7, -2, 30, 4])[np.argmax(X + 0.3 * rng.normal(size=X.shape), axis=1)]
VALUES = np.sin(X[:, 0]) + X[:, 1]

KERNELS = {
    "linear": {},
    "poly": {"degree": 2, "gamma": 0.4, "coef0": 0.7},
    "rbf": {"gamma": 0.3},
    "sigmoid": {"gamma": 0.1, "coef0": -0.5},
    "precomputed": {},
}
MACHINES = {
    "two classes": (mercer.SVC(C=2.0), TWO),
    "four classes": (mercer.SVC(C=2.0), FOUR),
    "nu, four classes": (mercer.NuSVC(nu=0.3), FOUR),
    "regression": (mercer.SVR(C=3.0, epsilon=0.05), VALUES),
    "nu regression": (mercer.NuSVR(nu=0.4), VALUES),
    "one class": (mercer.OneClassSVM(nu=0.3), TWO),
}


# The oracle: LIBSVM's svm_predict_values in plain Python, on a text.


def parts(text):
    head, _, body = text.partition("\nSV\n")
    header = {line.split()[0]: line.split()[1:] for line in head.splitlines()}
    width = int(header["nr_class"][0]) - 1
    rows = []
    for line in body.splitlines():
        words = line.split()
        pairs = dict(word.split(":") for word in words[width:])
        rows.append(
            ([float(w) for w in words[:width]], {int(i): float(v) for i, v in pairs.items()})
        )
    return header, rows


def kernel_value(header, sv, x):
    """x is a list of features; for a precomputed kernel, of kernel values."""
    kind = header["kernel_type"][0]
    if kind == "precomputed":
        return x[int(sv[0]) - 1]
    point = [sv.get(i + 1, 0.0) for i in range(len(x))]
    dot = math.fsum(a * b for a, b in zip(point, x, strict=True))
    gamma = float(header.get("gamma", ["1"])[0])
    coef0 = float(header.get("coef0", ["0"])[0])
    return {
        "linear": lambda: dot,
        "polynomial": lambda: (gamma * dot + coef0) ** int(header["degree"][0]),
        "rbf": lambda: math.exp(
            -gamma * math.fsum((a - b) ** 2 for a, b in zip(point, x, strict=True))
        ),
        "sigmoid": lambda: math.tanh(gamma * dot + coef0),
    }[kind]()


def naive(text, x):
    """LIBSVM's values of all pairs of labels, by label, and its prediction."""
    header, rows = parts(text)
    values = [kernel_value(header, sv, x) for _, sv in rows]
    rho = [float(r) for r in header["rho"]]
    if header["svm_type"][0] not in ("c_svc", "nu_svc"):
        f = math.fsum(c[0] * v for (c, _), v in zip(rows, values, strict=True)) - rho[0]
        return f, (f if "svr" in header["svm_type"][0] else 1 if f > 0 else -1)
    labels = [int(label) for label in header["label"]]
    k, counts = len(labels), [int(n) for n in header["nr_sv"]]
    begins = [sum(counts[:i]) for i in range(k)]
    found, votes, p = {}, [0] * k, 0
    for i in range(k):
        for j in range(i + 1, k):
            of_i = range(begins[i], begins[i] + counts[i])
            of_j = range(begins[j], begins[j] + counts[j])
            f = math.fsum(
                [rows[s][0][j - 1] * values[s] for s in of_i]
                + [rows[s][0][i] * values[s] for s in of_j]
            )
            found[labels[i], labels[j]] = f - rho[p]
            votes[i if f - rho[p] > 0 else j] += 1
            p += 1
    return found, labels[votes.index(max(votes))]


def assert_reads_as(text, machine, points):
    """The machine's values and predictions are those of the text."""
    expected = [naive(text, x.tolist()) for x in points]
    assert machine.predict(points).tolist() == pytest.approx([p for _, p in expected], rel=1e-9)
    if not hasattr(machine, "classes_"):
        if hasattr(machine, "decision_function"):
            values = [f for f, _ in expected]
            np.testing.assert_allclose(machine.decision_function(points), values, atol=1e-10)
        return
    machine.decision_function_shape = "ovo"
    values = machine.decision_function(points).reshape(len(points), -1)
    classes, column = machine.classes_.tolist(), 0
    assert classes == sorted(classes)
    for i, a in enumerate(classes):
        for b in classes[i + 1 :]:
            later_is_positive = len(classes) == 2
            theirs = np.array([f[a, b] if (a, b) in f else -f[b, a] for f, _ in expected])
            theirs = -theirs if later_is_positive else theirs
            np.testing.assert_allclose(values[:, column], theirs, atol=1e-9)
            column += 1


def fitted(machine, y, kernel):
    correct = "clip" if kernel == "sigmoid" else "error"
    made = clone(machine).set_params(kernel=kernel, indefinite=correct, **KERNELS[kernel])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # linear machines of a small nu may have no margin
        return made.fit(X @ X.T if kernel == "precomputed" else X, y)


# The layout has no room for a corrected kernel of four classes, as a test below says.
@pytest.mark.parametrize(
    ("kind", "kernel"),
    [(m, k) for m in MACHINES for k in KERNELS if "four" not in m or k != "sigmoid"],
)
def test_written_and_read_back(tmp_path, kind, kernel):
    machine, y = MACHINES[kind]
    made, path = fitted(machine, y, kernel), tmp_path / "a.model"
    points = NEW @ X.T if kernel == "precomputed" else NEW
    mercer.write_libsvm(made, path)
    text = path.read_text()
    assert_reads_as(text, made, points)
    again = mercer.read_libsvm(path, n_features=points.shape[1])
    assert type(again) is type(made)
    assert repr(again.kernel_) == repr(made.kernel_)
    assert_reads_as(text, again, points)
    mercer.write_libsvm(again, path)
    assert path.read_text() == text
    saved = tmp_path / "a.mercer"
    mercer.save(again, saved)
    assert (mercer.load(saved).predict(points) == again.predict(points)).all()


THREE = """svm_type c_svc
kernel_type polynomial
degree 2
gamma 0.5
coef0 1
nr_class 3
total_sv 6
rho 0.25 -0.5 0.125
label 9 2 5
nr_sv 2 1 3
SV
1 0.5 1:0.5 3:-1.25e0\x20
-.5 0.25 2:2\x20
-0.75 1 1:-1\x20
-0.25 -0.5\x20
0.5 -1 1:.5 2:-0.5 3:1\x20
0.125 0.0625 3:1e-1\x20
"""


def test_labels_in_any_order(tmp_path):
    path = tmp_path / "a.model"
    path.write_text(THREE)
    machine = mercer.read_libsvm(path)
    assert machine.classes_.tolist() == [2, 5, 9]
    assert machine.n_support_.tolist() == [1, 3, 2]
    assert (machine.degree, machine.gamma, machine.coef0) == (2, 0.5, 1.0)
    points = rng.normal(size=(200, 3)) * 2
    assert_reads_as(THREE, machine, points)
    assert len(set(machine.predict(points).tolist())) > 1


def test_for_two_labels_the_later_is_positive(tmp_path):
    path = tmp_path / "a.model"
    for labels, sign in (("1 -1", 1.0), ("-1 1", -1.0)):
        path.write_text(
            f"svm_type nu_svc\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho 0.5\n"
            f"label {labels}\nnr_sv 1 1\nSV\n1 1:1\n-1 1:-1\n"
        )
        values = mercer.read_libsvm(path).decision_function([[3.0], [-1.0]])
        np.testing.assert_allclose(values, [sign * 5.5, sign * -2.5])


def test_ties_of_votes_go_the_way_of_the_file(tmp_path):
    path = tmp_path / "a.model"
    # Each label wins once everywhere: 9 over 2, 5 over 9, 2 over 5.
    text = "svm_type c_svc\nkernel_type linear\nnr_class 3\ntotal_sv 0\nrho -1 1 -1\n"
    path.write_text(text + "label 9 2 5\nnr_sv 0 0 0\nSV\n")
    machine = mercer.read_libsvm(path, n_features=2)
    assert machine.predict(np.zeros((1, 2))).tolist() == [9]
    assert naive(path.read_text(), [0.0, 0.0])[1] == 9
    mercer.save(machine, tmp_path / "a.mercer")
    assert mercer.load(tmp_path / "a.mercer").predict(np.zeros((1, 2))).tolist() == [9]
    refitted = machine.fit(np.eye(3), [9, 2, 5])
    assert not hasattr(refitted, "tie_order_")


def test_features_that_no_support_vector_has(tmp_path):
    path = tmp_path / "a.model"
    text = (
        "svm_type epsilon_svr\nkernel_type rbf\ngamma 1\nnr_class 2\ntotal_sv 1\nrho 0\nSV\n1 1:1\n"
    )
    path.write_text(text)
    assert mercer.read_libsvm(path).n_features_in_ == 1
    wide = mercer.read_libsvm(path, n_features=3)
    np.testing.assert_allclose(wide.predict([[1.0, 0.0, 2.0]]), [np.exp(-4.0)])
    np.testing.assert_allclose(wide.predict(sp.csr_matrix([[1.0, 0.0, 2.0]])), [np.exp(-4.0)])


def test_sparse_support_vectors_stay_sparse(tmp_path):
    points = sp.random(50, 5000, density=0.002, random_state=0, format="csr") * 3
    y = np.where(np.arange(50) % 2, 1, 0)
    machine = mercer.SVC(kernel="linear", C=10.0).fit(points, y)
    mercer.write_libsvm(machine, tmp_path / "a.model")
    again = mercer.read_libsvm(tmp_path / "a.model", n_features=5000)
    assert sp.issparse(again.support_vectors_)
    values = again.decision_function(points)
    np.testing.assert_allclose(values, machine.decision_function(points), rtol=1e-12)
    assert_reads_as((tmp_path / "a.model").read_text(), again, points[:3].toarray())


def test_probabilities_are_left_out_with_a_word(tmp_path):
    path = tmp_path / "a.model"
    path.write_text(THREE.replace("nr_sv", "probA 1 1 1\nprobB 0 0 0\nnr_sv"))
    with pytest.warns(UserWarning, match="probabilities"):
        mercer.read_libsvm(path)


@pytest.mark.parametrize(
    ("machine", "error", "words"),
    [
        (mercer.KernelRidge(), TypeError, "KernelRidge"),
        (mercer.SVC(kernel=K.Laplacian()), ValueError, "no kernel Laplacian"),
        (mercer.SVC(kernel=K.RBF(scales=[1.0, 2.0, 3.0, 4.0])), ValueError, "no kernel RBF"),
        (mercer.SVC(kernel=0.5 * K.RBF()), ValueError, r"no kernel 0.5 \* RBF"),
    ],
)
def test_what_libsvm_has_no_place_for(tmp_path, machine, error, words):
    with pytest.raises(error, match=words):
        mercer.write_libsvm(machine.fit(X, TWO), tmp_path / "a.model")
    assert list(tmp_path.iterdir()) == []


def test_labels_must_be_whole_numbers(tmp_path):
    for labels in (TWO.astype(str), TWO * 2**40):
        with pytest.raises(ValueError, match="whole numbers"):
            mercer.write_libsvm(mercer.SVC().fit(X, labels), tmp_path / "a.model")


def test_corrected_kernels_of_many_classes_do_not_fit_the_layout(tmp_path):
    machine = fitted(mercer.SVC(), FOUR, "sigmoid")
    with pytest.raises(ValueError, match="indefinite='clip'"):
        mercer.write_libsvm(machine, tmp_path / "a.model")


def test_load_says_what_reads_it(tmp_path):
    (tmp_path / "a.model").write_text(THREE)
    with pytest.raises(ValueError, match="read_libsvm"):
        mercer.load(tmp_path / "a.model")
    with pytest.raises(OSError, match="nowhere"):
        mercer.read_libsvm(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("svm_type c_svc", "svm_type d_svc", "expected one of c_svc"),
        ("svm_type", "type", "begin with svm_type"),
        ("kernel_type polynomial", "kernel_type cubic", "expected one of linear"),
        ("degree 2", "degree 2.5", "degree is"),
        ("gamma 0.5", "gamma -1", "gamma is"),
        ("gamma 0.5", "gamma 1e999", "gamma is"),
        ("gamma 0.5", "gamma 1_0", "gamma is"),
        ("gamma 0.5\n", "", "gamma has 0"),
        ("coef0 1", "coef0 nan", "coef0 is"),
        ("coef0 1", "coef0 1\ncoef0 2", "line 6"),
        ("coef0 1", "colour red", "line 5"),
        ("nr_class 3", "nr_class 1", "at least 2"),
        ("nr_class 3", "nr_class 4", "label has 3"),
        ("total_sv 6", "total_sv 7", "add up to 6"),
        ("nr_sv 2 1 3", "nr_sv 2 1 -3", "nr_sv is"),
        ("label 9 2 5", "label 9 2 9", "twice"),
        ("label 9 2 5", "label 9 2 a", "a label is"),
        ("rho 0.25 -0.5 0.125", "rho 0.25", "rho has 1"),
        ("\nSV\n", "\n", "line 11"),
        ("1:-1", "1:-1 1:2", "ascend"),
        ("1:-1", "0:-1", "ascend"),
        ("1:-1", "99999999999:1", "line 14"),
        ("1:-1", "1:inf", "line 14"),
        ("1:-1", "1:1e999", "larger than"),
        ("-0.75 1 1:-1", "-0.75 1:-1", "line 14"),
        ("0.125 0.0625 3:1e-1 \n", "", "5 support vectors"),
        ("0.125 0.0625 3:1e-1", "é", "ASCII"),
    ],
)
def test_bad_files_are_told_what_is_wrong(tmp_path, old, new, words):
    assert old in THREE
    path = tmp_path / "a.model"
    path.write_text(THREE.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=words) as caught:
        mercer.read_libsvm(path)
    assert str(path) in str(caught.value)


def test_a_precomputed_kernel_needs_numbers_of_points(tmp_path):
    path = tmp_path / "a.model"
    text = "svm_type one_class\nkernel_type precomputed\nnr_class 2\ntotal_sv 1\nrho 0\nSV\n1 "
    for point in ("1:2", "0:0", "0:1.5", "", "0:1e30"):
        path.write_text(text + point + "\n")
        with pytest.raises(ValueError, match="line 7"):
            mercer.read_libsvm(path)


@settings(
    max_examples=TRIES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    cut=st.integers(0, len(THREE)),
    at=st.integers(0, len(THREE)),
    inserted=st.text(st.sampled_from("0123456789.-+eE: \nSVx\x00"), max_size=4),
)
def test_any_damage_gives_a_model_or_a_value_error(tmp_path, cut, at, inserted):
    path = tmp_path / "a.model"
    text = THREE[:at] + inserted + THREE[at:] if cut % 2 else THREE[:cut]
    path.write_text(text)
    try:
        machine = mercer.read_libsvm(path)
    except ValueError:
        return
    assert np.isfinite(machine.intercept_).all()
    assert len(machine.support_) == machine.n_support_.sum()


def test_a_damaged_line_of_many_numbers_is_refused_at_once(tmp_path):
    """Numbers can be read in one way only: else two to the power of their number would be tried."""
    path = tmp_path / "damaged.model"
    features = " ".join(f"{i}:1234567890" for i in range(1, 400))
    path.write_text(
        "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho 0\nlabel 1 -1\n"
        f"nr_sv 1 1\nSV\n0.5 {features} word\n-0.5 1:-1\n"
    )
    with pytest.raises(ValueError, match="cannot be read as LIBSVM's"):
        mercer.read_libsvm(path)
