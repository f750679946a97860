"""Automatic models of graphs: a kernel chosen by leave-one-out, probabilities, and files."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import mercer
from mercer import kernels as K
from mercer.auto.refitting import refitted


@pytest.fixture(scope="module")
def rings():
    """Rings, of which those of class 1 have a chord to the third node."""
    found = []
    for i in range(60):
        graph = nx.cycle_graph(6 + i // 2 % 5)
        if i % 2:
            graph.add_edge(0, 3)
        found.append(graph)
    return found, np.arange(60) % 2


def test_classes_of_graphs(rings, tmp_path):
    graphs, y = rings
    model = mercer.AutoKernelClassifier().fit(graphs[:40], y[:40])
    assert model.score(graphs[40:], y[40:]) == 1
    np.testing.assert_allclose(model.predict_proba(graphs).sum(axis=1), 1)
    assert model.novelty(graphs[:2]).tolist() == [0, 0]
    mercer.save(model, tmp_path / "it")
    expected = model.predict_proba(graphs).tobytes()
    assert mercer.load(tmp_path / "it").predict_proba(graphs).tobytes() == expected
    again = refitted(model, graphs, y)
    assert len(again.model_.X_fit_) == 60
    assert again.kernel_ is model.kernel_


def test_the_kernel_is_the_one_of_the_least_error(rings):
    model = mercer.AutoKernelClassifier().fit(*rings)
    tried = [row for row in model.report_["tried"] if "loss" not in row["kernel"]]
    best = min(tried, key=lambda row: row["error"])
    assert f"{best['kernel'].split('(')[0].split()[-1]}" in repr(model.kernel_)


def test_numbers_of_graphs(rings):
    graphs, _ = rings
    sizes = np.array([len(graph) for graph in graphs], dtype=float)
    known = np.arange(60) % 4 != 3
    model = mercer.AutoKernelRegressor().fit(
        [graphs[i] for i in np.flatnonzero(known)], sizes[known]
    )
    assert np.abs(model.predict(graphs[3::4]) - sizes[3::4]).max() < 1.5
    low, high = model.predict_interval(graphs[3::4])
    assert np.all(low < high)


@pytest.mark.parametrize("form", ["list", "array", "series", "frame", "pairs"])
def test_forms_of_collections(rings, form):
    graphs, y = rings
    given = {
        "list": lambda: [K.Graph.parse(graph) for graph in graphs],
        "array": lambda: np.array([*graphs, None], dtype=object)[:-1],
        "series": lambda: pd.Series(graphs),
        "frame": lambda: pd.DataFrame({"molecule": graphs}),
        "pairs": lambda: [(list(graph.edges), None) for graph in graphs],
    }[form]()
    expected = mercer.AutoKernelClassifier().fit(graphs, y).predict_proba(graphs)
    found = mercer.AutoKernelClassifier().fit(given, y).predict_proba(given)
    np.testing.assert_array_equal(found, expected)


def test_a_table_is_no_collection_of_graphs(rings):
    model = mercer.AutoKernelClassifier().fit(*rings)
    with pytest.raises(TypeError, match="fitted to graphs; expected a list of graphs"):
        model.predict([[1.0], [2.0]])
    rows = [(float(i), "ab"[i % 2]) for i in range(40)]
    model = mercer.AutoKernelClassifier().fit(rows, [0, 1] * 20)
    assert model.score(rows, [0, 1] * 20) == 1


def test_many_graphs_are_fitted_on_centres(rings, monkeypatch):
    graphs, y = rings
    monkeypatch.setattr("mercer.auto.automatic.EXACT_AT_MOST", 20)
    model = mercer.AutoKernelClassifier(max_time=1e-3).fit(graphs, y)
    assert len(model.model_.X_fit_) < 60
    assert model.score(graphs, y) > 0.9


def test_lists_of_strings(rings):
    words = ["gattaca" if i % 2 else "cctgtgc" for i in range(40)]
    words = [w * (1 + i % 3) + "acgt"[i % 4] for i, w in enumerate(words)]
    model = mercer.AutoKernelClassifier().fit(words, np.arange(40) % 2)
    assert model.score(words, np.arange(40) % 2) == 1
