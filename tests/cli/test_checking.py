"""`mercer check` and `mercer kernels`."""

from __future__ import annotations

import json

import numpy as np

from command_line import refused, run
from mercer import kernels as K


def test_check():
    assert "is a kernel" in run("check", "0.5 * RBF(0.1) + Polynomial(2)").stdout
    assert "sum of kernels" in run("check", "0.5 * RBF(0.1) + Polynomial(2)").stdout
    shown = run("check", "Sigmoid(1.0, 1.0)", status=1).stdout
    assert "is not a kernel" in shown
    assert "eigenvalue" in shown
    found = json.loads(run("check", "Sigmoid(1.0, 1.0)", "--json", status=1).stdout)
    assert found["status"] == "indefinite"
    points = np.array(found["counterexample"]["points"])
    assert np.linalg.eigvalsh(K.Sigmoid(1.0, 1.0)(points))[0] < 0
    assert json.loads(run("check", "Linear()", "--json").stdout)["counterexample"] is None
    assert "1 + Linear() + Linear() ** 2" in run("check", "Polynomial(2) - Linear()").stdout
    hidden = "0.3 * Linear() - 0.1 * Linear() - 0.2 * Linear()"
    assert "undecided" in run("check", hidden, status=3).stdout


def test_a_proof_has_a_line_for_each_step(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    shown = run("check", "RBF(0.5) * Polynomial(2) + 1").stdout
    assert shown == f"{(K.RBF(0.5) * K.Polynomial(2) + 1).validity.proof}\n"


def test_an_error_in_an_expression_is_named_with_its_place():
    told = refused("check", "Linear() + RFB(0.5)")
    assert told == (
        "mercer: Linear() + RFB(0.5): column 12: unknown kernel 'RFB'; did you mean RBF?\n"
    )
    assert refused("check", "").startswith("mercer: column 1: the text is empty")


def test_kernels():
    shown = run("kernels").stdout
    named = {name for name, cls in K.REGISTRY.items() if cls.__module__.startswith("mercer.")}
    made = {"Sum", "Product", "Power", "Exp", "Normalized", "Rescaled", "Composed", "OnColumns"}
    assert all(name in shown for name in named - made)
    assert "RBF(gamma=1.0, scales=None)" in shown
    assert "gamma" in run("kernels", "RBF").stdout
    listed = json.loads(run("kernels", "--json").stdout)["kernels"]
    assert {row["name"] for row in listed} == named - made
