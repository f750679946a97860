"""Kernels on graphs, trees, sets and sequences: mercer beside GraKeL and strkernels, in one run.

    python benchmarks/structured.py --data DIR [--parts graphs,accuracy,trees,sets,strings,texts,
                                    sequence_accuracy] [--repeats 3] [--cpu]

DIR (or the environment variable MERCER_DATA) holds MUTAG.zip, PTC_MR.zip and ENZYMES.zip of the TU
collection, as they come, and beside it is a folder ``strings`` with splice.csv and promoters.data
of the UCI repository; what needs a missing file is left out. The peers come with ``pip install
grakel networkx strkernels``, best into a folder of their own on PYTHONPATH: they install a
top-level package ``tests``. Times are the best of alternating repeats, GraKeL's optimal
assignment once; the difference is the largest between the two Gram matrices, relative to the
largest entry. GraKeL does not use edge labels in these kernels, so they are left out for both.
``--cpu`` takes the processor time of all threads instead of the clock's, for a busy machine.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import timing
from sklearn.model_selection import GridSearchCV, LeaveOneOut, StratifiedKFold, cross_val_score
from timing import timed

from mercer import SVC, KernelCentroidClassifier, feature_importances
from mercer import kernels as K
from mercer.kernels.graph.graphs import Graph, parse_graphs

COLLECTIONS = ["MUTAG", "PTC_MR", "ENZYMES"]
COSTS = [10.0**k for k in range(-3, 4)]


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def line(name: str, ours: float, theirs: float, error: str) -> None:
    print(f"{name:46s} {1e3 * ours:10.1f} {1e3 * theirs:10.1f} {theirs / ours:8.1f}x  {error}")


# Graphs.


def read(data: Path | None, name: str) -> tuple[list[Graph], np.ndarray] | None:
    path = None if data is None else data / f"{name}.zip"
    if path is None or not path.exists():
        print(f"{name}: left out, no {name}.zip in the folder of --data")
        return None
    graphs, y = K.read_tu(path, edge_labels=False)
    assert y is not None
    return graphs, y


def for_grakel(graphs: Sequence[Graph]) -> list[list[Any]]:
    """Dictionaries of neighbours, in which GraKeL keeps nodes without edges, and labels."""
    made = []
    for graph in graphs:
        bounds = graph.indptr.tolist()
        around = {
            i: dict.fromkeys(graph.indices[a:b].tolist(), 1.0)
            for i, (a, b) in enumerate(pairwise(bounds))
        }
        made.append([around, dict(enumerate(graph.node_labels))])
    return made


def for_networkx(graphs: Sequence[Graph]) -> list[Any]:
    import networkx

    made = []
    for around, labels in for_grakel(graphs):
        graph = networkx.Graph()
        graph.add_nodes_from((node, {"label": label}) for node, label in labels.items())
        graph.add_edges_from((u, v) for u in around for v in around[u])
        made.append(graph)
    return made


def molecules(count: int, seed: int = 0) -> list[Graph]:
    """Trees of 10 to 49 atoms with a ring closed for every ten, degrees of at most four."""
    rng = np.random.default_rng(seed)
    made: list[Any] = []
    for _ in range(count):
        n = int(rng.integers(10, 50))
        kinds = rng.choice(8, n, p=[0.6, 0.12, 0.12, 0.06, 0.04, 0.03, 0.02, 0.01])
        degree = np.zeros(n, dtype=int)
        edges: set[tuple[int, int]] = set()
        for v in range(1, n):
            free = [u for u in range(max(0, v - 6), v) if degree[u] < 4]
            edges.add((free[int(rng.integers(len(free)))], v))
            degree = np.bincount(np.ravel(list(edges)), minlength=n)
        for u in rng.integers(0, n - 5, n // 10).tolist():
            if degree[u] < 4 and degree[u + 5] < 4:
                edges.add((u, u + 5))
                degree = np.bincount(np.ravel(list(edges)), minlength=n)
        made.append((sorted(edges), kinds.tolist()))
    return parse_graphs(made)


def graphs(data: Path | None, repeats: int) -> None:
    import grakel

    print(f"\n{'graphs':46s} {'mercer ms':>10s} {'GraKeL ms':>10s} {'ratio':>9s}  difference")

    def compare(
        name: str,
        ours: Callable[[], np.ndarray],
        theirs: Callable[[], np.ndarray],
        times: int = repeats,
        note: str = "",
    ) -> None:
        mine = peer = np.inf
        found = expected = np.empty(0)
        for _ in range(times):
            seconds, found = timed(ours, 2)
            mine = min(mine, seconds)
            seconds, expected = timed(theirs, 1)
            peer = min(peer, seconds)
        line(name, mine, peer, note or f"{difference(found, expected):.1e}")

    sets = {"4,000 molecules": molecules(4000)}
    enzymes = read(data, "ENZYMES")
    if enzymes is not None:
        sets = {"ENZYMES": enzymes[0], **sets}
    for name, X in sets.items():
        theirs = for_grakel(X)
        compare(
            f"WeisfeilerLehman(5), {name}",
            lambda: K.WeisfeilerLehman(5)(X),
            lambda: grakel.WeisfeilerLehman(n_iter=5).fit_transform(theirs),
        )
        views = for_networkx(X)
        compare(
            "  the same from networkx objects",
            lambda: K.WeisfeilerLehman(5)(views),
            lambda: grakel.WeisfeilerLehman(n_iter=5).fit_transform(
                grakel.graph_from_networkx(views, node_labels_tag="label")
            ),
        )
    if enzymes is None:
        return
    X, theirs = enzymes[0], for_grakel(enzymes[0])
    compare(
        "WLOptimalAssignment(5), ENZYMES",
        lambda: K.WLOptimalAssignment(5)(X),
        lambda: grakel.WeisfeilerLehmanOptimalAssignment(n_iter=5).fit_transform(theirs),
        times=1,
    )
    compare(
        "ShortestPath(), ENZYMES",
        lambda: K.ShortestPath()(X),
        lambda: grakel.ShortestPath().fit_transform(theirs),
    )
    compare(
        "Propagation(5), ENZYMES",
        lambda: K.Propagation(5)(X),
        lambda: grakel.Propagation(t_max=5).fit_transform(theirs),
        note="(random)",
    )
    slice_ = X[::10]
    part = for_grakel(slice_)
    plain = [graph.unlabelled() for graph in slice_]
    compare(
        "RandomWalk(0.01) without labels, 60 of ENZYMES",
        lambda: K.RandomWalk(0.01)(plain),
        lambda: grakel.RandomWalk(lamda=0.01).fit_transform(part),
    )
    # GraKeL's fast method for labels transposes one of the two graphs, so that its walks do not
    # match; its baseline is the definition, with one for pairs of nodes whose labels differ.
    compare(
        "RandomWalk(0.01), 60 of ENZYMES",
        lambda: K.RandomWalk(0.01)(slice_),
        lambda: grakel.RandomWalkLabeled(lamda=0.01).fit_transform(part),
        note="(see below)",
    )
    small = [graph for graph in X if graph.n_nodes <= 16][:20]
    compare(
        "  20 small ones, by GraKeL's baseline",
        lambda: K.RandomWalk(0.01)(small) + unmatched(small),
        lambda: grakel.RandomWalkLabeled(lamda=0.01, method_type="baseline").fit_transform(
            for_grakel(small)
        ),
        times=1,
    )
    for size in (3, 4, 5):
        compare(
            f"Graphlet({size}), 60 of ENZYMES",
            lambda: K.Graphlet(size)(slice_),
            lambda: grakel.GraphletSampling(k=size).fit_transform(part),
            note="(another definition)",
        )


def unmatched(X: Sequence[Graph]) -> np.ndarray:
    """How many pairs of nodes of two graphs have different labels."""
    labels = [np.array(graph.node_labels) for graph in X]
    return np.array([[np.not_equal.outer(a, b).sum() for b in labels] for a in labels])


# Accuracy.


def accuracy(data: Path | None, repeats: int) -> None:
    import grakel

    print(f"\n{'accuracy, 10 folds':28s} {'mercer':>16s} {'GraKeL':>16s}  difference of Grams")
    pairs = [
        (K.WeisfeilerLehman(5), grakel.WeisfeilerLehman(n_iter=5, normalize=True)),
        (
            K.WLOptimalAssignment(5),
            grakel.WeisfeilerLehmanOptimalAssignment(n_iter=5, normalize=True),
        ),
        (K.ShortestPath(), grakel.ShortestPath(normalize=True)),
    ]
    for name in COLLECTIONS:
        collection = read(data, name)
        if collection is None:
            continue
        X, y = collection
        for kernel, peer in pairs:
            ours = kernel.normalize()(X)
            theirs = peer.fit_transform(for_grakel(X))
            scores = [cross_validated(gram, y) for gram in (ours, theirs)]
            shown = [f"{100 * s.mean():.2f} ± {100 * s.std():.2f}" for s in scores]
            same = "" if np.array_equal(*scores) else "  scores differ"
            print(
                f"{name + ' ' + type(kernel).__name__:28s} {shown[0]:>16s} {shown[1]:>16s}  "
                f"{difference(ours, theirs):.1e}{same}"
            )


def cross_validated(gram: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Accuracy in each of ten folds, C chosen by three folds of the others."""
    scores = []
    for train, test in StratifiedKFold(10, shuffle=True, random_state=0).split(gram, y):
        inner = StratifiedKFold(3, shuffle=True, random_state=0)
        search = GridSearchCV(SVC(kernel="precomputed"), {"C": COSTS}, cv=inner)
        search.fit(gram[np.ix_(train, train)], y[train])
        scores.append(search.score(gram[np.ix_(test, train)], y[test]))
    return np.array(scores)


# Trees.


def sentence(rng: np.random.Generator) -> Any:
    """A random tree of some thirty nodes, by a small grammar."""
    rules = {
        "S": [("NP", "VP")],
        "NP": [("D", "N"), ("D", "A", "N"), ("NP", "PP")],
        "VP": [("V", "NP"), ("VP", "PP"), ("V",)],
        "PP": [("P", "NP")],
    }
    words = {"D": 5, "N": 400, "A": 100, "V": 150, "P": 20}

    def grow(symbol: str, depth: int) -> Any:
        if symbol in words:
            return (symbol, f"{symbol.lower()}{int(words[symbol] * rng.random() ** 3)}")
        choices = rules[symbol]
        chosen = choices[0 if depth > 5 else int(rng.integers(len(choices)))]
        return (symbol, *(grow(part, depth + 1) for part in chosen))

    return grow("S", 0)


def trees(data: Path | None, repeats: int) -> None:
    print(f"\n{'trees':46s} {'ms':>10s}  µs a pair")
    rng = np.random.default_rng(0)
    X = [K.Tree.parse(sentence(rng)) for _ in range(2000)]
    print(f"{len(X)} trees, {np.mean([len(x.labels) for x in X]):.0f} nodes on average")
    for kernel in (K.Subtree(), K.SubsetTree(), K.PartialTree()):
        seconds, _ = timed(lambda: kernel(X), repeats)
        print(f"{kernel!r:46s} {1e3 * seconds:10.1f}  {2e6 * seconds / len(X) ** 2:.2f}")
    for depth in (2500, 5000, 10000):
        chain = K.Tree.parse("(a " * depth + "b" + ")" * depth)
        seconds, _ = timed(lambda: K.PartialTree()([chain]), 1)
        print(f"{f'PartialTree() of a chain of {depth} with itself':46s} {1e3 * seconds:10.1f}")


# Sets.


def sets(data: Path | None, repeats: int) -> None:
    """The supermarket: does a cart hold one of a few products that nobody has named?"""
    print(f"\n{'5,000 carts of 50, products':46s} {'fit ms':>10s} {'predict ms':>10s}  accuracy")
    for products in (10**3, 10**4, 10**5, 10**6):
        rng = np.random.default_rng(0)
        wanted, n = 20, 7000
        carts = rng.integers(wanted, products, (n, 50))
        y = rng.random(n) < 0.5
        carts[y, 0] = rng.integers(0, wanted, y.sum())
        X = [set(cart) for cart in carts.tolist()]
        fitted, model = timed(
            lambda: SVC(kernel=K.SetIntersection()).fit(X[:5000], y[:5000]), repeats
        )
        predicted, score = timed(lambda: model.score(X[5000:], y[5000:]), repeats)
        print(f"{products:46,d} {1e3 * fitted:10.0f} {1e3 * predicted:10.0f}  {score:.3f}")


# Sequences.

PEER_PAIRS = 200 * 199 // 2  # strkernels is timed on a slice of the strings, and scaled up


def splice(data: Path | None) -> tuple[list[str], np.ndarray] | None:
    path = None if data is None else data.parent / "strings" / "splice.csv"
    if path is None or not path.exists():
        print("splice: left out, no strings/splice.csv beside the folder of --data")
        return None
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["sequence"].strip() for row in rows], np.array(
        [row["label"].strip() for row in rows]
    )


def strings(data: Path | None, repeats: int) -> None:
    """Gram matrices of DNA strings, beside strkernels on a slice, scaled to as many pairs."""
    import strkernels

    found = splice(data)
    if found is None:
        return
    X = found[0]
    print(f"\n{'sequences':46s} {'mercer ms':>10s} {'peer ms':>10s} {'ratio':>9s}  difference")
    # The peer's first two sum over words of one letter to as many as asked for, in one pass.
    peers = [
        (K.Spectrum, (4,), strkernels.SpectrumStringKernel(order=4), len(X)),
        (K.Subsequence, (5,), strkernels.SubsequenceStringKernel(maxlen=5, ssk_lambda=0.5), 300),
        (K.WeightedDegree, (8,), strkernels.WeightedDegreeStringKernel(degree=8), len(X)),
    ]
    part = [x for x in X if set(x) <= set("ACGT")][:200]
    for kind, (size,), peer, n in peers:
        kernel = kind(size)
        seconds, _ = timed(lambda k=kernel, n=n: k(X[:n]), repeats)
        slice_seconds, theirs = timed(lambda p=peer: p(part, part), 2)
        scaled = slice_seconds * (n * (n - 1) / 2) / PEER_PAIRS
        equal = [kernel] if kind is K.WeightedDegree else [kind(k + 1) for k in range(size)]
        error = difference(sum(equal[1:], equal[0]).normalize()(part), np.asarray(theirs))
        line(f"{kernel!r}, {n} strings", seconds, scaled, f"{error:.0e}")


def texts(data: Path | None, repeats: int) -> None:
    """Two long strings, planted signatures, models of many strings, a hundred thousand strings."""
    rng = np.random.default_rng(0)
    for count in ("presence", "occurrences"):
        for n in (1_000_000, 3_000_000, 10_000_000):
            pair = [rng.integers(97, 123, size=n, dtype=np.uint8).tobytes() for _ in range(2)]
            seconds, _ = timed(lambda pair=pair, c=count: K.Substring(count=c)(pair), 1)
            print(
                f"Substring, {count}, two strings of {n:,} bytes: {seconds:.1f} s, "
                f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB at most"
            )
    for length in (4, 8, 12, 16):
        planted(length, rng)
    for n in (250, 500, 1000, 2000):
        automaton(n, rng)
    for n, k in ((100_000, 4), (100_000, 6)):
        X, y = motifs(n, rng)
        model = SVC(kernel=K.Spectrum(k).normalize())
        seconds, _ = timed(lambda m=model, X=X, y=y: m.fit(X[: n * 9 // 10], y[: n * 9 // 10]), 1)
        score = model.score(X[n * 9 // 10 :], y[n * 9 // 10 :])
        print(
            f"SVC on {n * 9 // 10:,} strings of 60 letters, Spectrum({k}): {seconds:.1f} s, gap "
            f"{model.dual_gap_:.0e}, accuracy {score:.3f}"
        )


def planted(length: int, rng: np.random.Generator) -> None:
    """A signature that half of the files have somewhere: learned, and reported back."""
    signature = rng.integers(0, 256, size=length, dtype=np.uint8).tobytes()
    files = [rng.integers(0, 256, size=100_000, dtype=np.uint8).tobytes() for _ in range(60)]
    infected = np.arange(60) % 2 == 1
    at = rng.integers(0, 99_000, size=60)
    files = [
        f[:i] + signature + f[i:] if b else f for f, i, b in zip(files, at, infected, strict=True)
    ]
    model = SVC(kernel=K.Substring(min_length=4, max_length=16).normalize())
    fitted, _ = timed(lambda: model.fit(files[:40], infected[:40]), 1)
    scored, score = timed(lambda: model.score(files[40:], infected[40:]), 1)
    spent, found = timed(lambda: feature_importances(model), 1)
    print(
        f"a signature of {length} bytes in files of 100 kB: fit {fitted:.1f} s, 20 new files "
        f"{scored:.1f} s, accuracy {score:.2f}, reported back in {spent:.1f} s: "
        f"{found.substrings[0][0][0] == signature}"
    )


def automaton(n: int, rng: np.random.Generator) -> None:
    """Predictions of a model in which every string counts, once it has made its automaton."""
    letters = np.array(list("ACGT"))
    X = ["".join(row) for row in letters[rng.integers(0, 4, size=(n, 200))]]
    model = KernelCentroidClassifier(kernel=K.Substring()).fit(X, np.arange(n) % 2)
    new = ["".join(row) for row in letters[rng.integers(0, 4, size=(500, 200))]]
    first, _ = timed(lambda: model.predict(new), 1)
    again, _ = timed(lambda: model.predict(new), 3)
    print(
        f"Substring, a model of {n} strings of 200 letters: 500 predictions in {1e3 * first:.0f} "
        f"ms, from then on in {1e3 * again:.1f} ms"
    )


def motifs(n: int, rng: np.random.Generator) -> tuple[list[str], np.ndarray]:
    """Random DNA, half of it with a word of six letters of which one may be wrong."""
    A, y = rng.integers(0, 4, size=(n, 60)), rng.integers(0, 2, size=n)
    for i in np.flatnonzero(y):
        word = np.array([0, 1, 3, 2, 2, 0])
        word[rng.integers(6)] = rng.integers(4)
        start = rng.integers(0, 50)
        A[i, start : start + 6] = word
    return ["".join(row) for row in np.array(list("ACGT"))[A]], y


def sequence_accuracy(data: Path | None, repeats: int) -> None:
    found = splice(data)
    if found is None:
        return
    X, y = found
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    scores = cross_val_score(
        SVC(kernel="precomputed"), K.WeightedDegree(8).normalize()(X), y, cv=folds
    )
    print(f"splice, WeightedDegree(8), five folds: {scores.mean():.3f}")
    path = data.parent / "strings" / "promoters.data"
    if path.exists():
        rows = [row.split(",") for row in path.read_text().splitlines()]
        G = K.WeightedDegree(6).normalize()([row[2].strip() for row in rows])
        labels = np.array([row[0] for row in rows])
        scores = cross_val_score(SVC(kernel="precomputed"), G, labels, cv=LeaveOneOut())
        print(f"promoters, WeightedDegree(6), leave one out: {scores.mean():.3f}")


PARTS = {
    "graphs": graphs,
    "accuracy": accuracy,
    "trees": trees,
    "sets": sets,
    "strings": strings,
    "texts": texts,
    "sequence_accuracy": sequence_accuracy,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"))
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    if options.cpu:
        timing.count_processor_time()
    warnings.simplefilter("ignore")  # GraKeL's own
    measure = "processor time" if options.cpu else "time"
    print(f"{timing.machine()}\n{measure}, best of {options.repeats}")
    for part in options.parts.split(","):
        PARTS[part](Path(options.data) if options.data else None, options.repeats)


if __name__ == "__main__":
    main()
