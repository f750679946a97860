"""Slow, obvious kernels of two points, and points to try kernels on: the oracle of the contracts.

A new vector kernel adds one line to `NAIVE` (its formula for two points, in plain Python) and one
to `CASES` (parameters worth trying).
"""

from __future__ import annotations

import math

import numpy as np

from mercer import kernels as K


def scaled(k, x, z):
    s = np.ones(len(x)) if k.scales is None else np.asarray(k.scales)
    return x / s, z / s


def distance(k, x, z):
    x, z = scaled(k, x, z)
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(x, z, strict=True)))


def city_block(k, x, z):
    x, z = scaled(k, x, z)
    return sum(abs(a - b) for a, b in zip(x, z, strict=True))


def matern(k, x, z):
    r = distance(k, x, z) / k.length_scale
    if k.nu == 0.5:
        return math.exp(-r)
    if k.nu == 1.5:
        return (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r)
    if k.nu == 2.5:
        return (1 + math.sqrt(5) * r + 5 * r * r / 3) * math.exp(-math.sqrt(5) * r)
    return math.exp(-r * r / 2)


def periodic(k, x, z):
    x, z = scaled(k, x, z)
    total = sum(math.sin(math.pi * (a - b) / k.period) ** 2 for a, b in zip(x, z, strict=True))
    return math.exp(-2 * total / k.length_scale**2)


def chi_square(k, x, z):
    terms = ((a - b) ** 2 / (a + b) for a, b in zip(x, z, strict=True) if a + b > 0)
    return math.exp(-k.gamma * sum(terms))


def cosine(k, x, z):
    norms = math.sqrt(x @ x) * math.sqrt(z @ z)
    return x @ z / norms if norms else 0.0


def tanimoto(k, x, z):
    total = x @ x + z @ z - x @ z
    return x @ z / total if total else 1.0


def transition(k, x, z):
    def s(t):
        rising = 1 / (1 + math.exp(-(t - k.location) / k.width))
        return 1 - rising if k.falling else rising

    return sum(s(a) * s(b) for a, b in zip(x, z, strict=True))


NAIVE = {
    "Constant": lambda k, x, z: k.value,
    "Linear": lambda k, x, z: x @ z,
    "Polynomial": lambda k, x, z: (k.gamma * (x @ z) + k.coef0) ** k.degree,
    "Sigmoid": lambda k, x, z: math.tanh(k.gamma * (x @ z) + k.coef0),
    "Conjunction": lambda k, x, z: math.prod(1 + a * b for a, b in zip(x, z, strict=True)),
    "Cosine": cosine,
    "RBF": lambda k, x, z: math.exp(-k.gamma * distance(k, x, z) ** 2),
    "Exponential": lambda k, x, z: math.exp(-k.gamma * distance(k, x, z)),
    "Laplacian": lambda k, x, z: math.exp(-k.gamma * city_block(k, x, z)),
    "Matern": matern,
    "RationalQuadratic": lambda k, x, z: (
        (1 + distance(k, x, z) ** 2 / (2 * k.alpha * k.length_scale**2)) ** -k.alpha
    ),
    "Periodic": periodic,
    "Min": lambda k, x, z: sum(min(a, b) for a, b in zip(x, z, strict=True)),
    "Chi2": chi_square,
    "Tanimoto": tanimoto,
    "Transition": transition,
    "SetIntersection": lambda k, x, z: len(x & z),
    "SetConjunction": lambda k, x, z: 2 ** len(x & z),
    "SetJaccard": lambda k, x, z: len(x & z) / len(x | z) if x | z else 1.0,
    "FromFunction": lambda k, x, z: k.f(x, z),
    "FromFeatures": lambda k, x, z: (k.phi(x[None]) @ k.phi(z[None]).T).item(),
    "FromMatrix": lambda k, x, z: k.A[int(x)][int(z)],
}

# Structured kernels have their brute-force oracles in modules of their own.
ORACLE_MODULES = {
    "string/test_strings.py": ["Spectrum", "Mismatch", "Gappy", "WeightedDegree", "Subsequence"],
    "string/test_substrings.py": ["Substring"],
    "tree/test_trees.py": ["Subtree", "SubsetTree", "PartialTree"],
    "graph/test_graph_kernels.py": [
        "WeisfeilerLehman",
        "WLOptimalAssignment",
        "ShortestPath",
        "Graphlet",
        "Propagation",
    ],
    "graph/test_walks.py": ["RandomWalk"],
}


def squares(X):
    return np.hstack([X, X**2])


def product_of_first(x, z):
    return float(x[0] * z[0])


SCALES = [0.5, 1.0, 3.0]

CASES = {
    "Constant": [K.Constant(2.5)],
    "Linear": [K.Linear()],
    "Polynomial": [K.Polynomial(), K.Polynomial(2, 0.3, 0.0), K.Polynomial(4, 0.1, 2.0)],
    "Sigmoid": [K.Sigmoid(0.2, 0.3)],
    "Conjunction": [K.Conjunction()],
    "Cosine": [K.Cosine()],
    "RBF": [K.RBF(), K.RBF(0.2), K.RBF(0.5, scales=SCALES)],
    "Exponential": [K.Exponential(0.4), K.Exponential(1.0, scales=SCALES)],
    "Laplacian": [K.Laplacian(0.4), K.Laplacian(1.0, scales=SCALES)],
    "Matern": [K.Matern(nu, 1.3, scales=SCALES) for nu in (0.5, 1.5, 2.5, math.inf)],
    "RationalQuadratic": [K.RationalQuadratic(0.7, 1.4), K.RationalQuadratic(2.0, scales=SCALES)],
    "Periodic": [K.Periodic(1.7, 0.8), K.Periodic(2.0, 1.1, scales=SCALES)],
    "Min": [K.Min()],
    "Chi2": [K.Chi2(0.3)],
    "Tanimoto": [K.Tanimoto()],
    "Transition": [K.Transition(), K.Transition(0.4, 0.3, falling=True)],
    "SetIntersection": [K.SetIntersection()],
    "SetConjunction": [K.SetConjunction()],
    "SetJaccard": [K.SetJaccard()],
    "Spectrum": [K.Spectrum(2)],
    "Mismatch": [K.Mismatch(3, 1, alphabet="ACGT")],
    "Gappy": [K.Gappy(2, 1)],
    "Subsequence": [K.Subsequence(3, 0.6)],
    "Substring": [
        K.Substring(),
        K.Substring(count="occurrences", weighting="bounded", max_length=3),
    ],
    "WeightedDegree": [K.WeightedDegree(4), K.WeightedDegree(3, shift=1)],
    "Subtree": [K.Subtree()],
    "SubsetTree": [K.SubsetTree(0.4)],
    "PartialTree": [K.PartialTree(0.4, 0.3)],
    "WeisfeilerLehman": [K.WeisfeilerLehman(2)],
    "WLOptimalAssignment": [K.WLOptimalAssignment(2)],
    "ShortestPath": [K.ShortestPath()],
    "RandomWalk": [K.RandomWalk(0.01)],
    "Graphlet": [K.Graphlet(3)],
    "Propagation": [K.Propagation(2, random_state=0)],
    "FromFunction": [K.FromFunction(product_of_first, valid=True)],
    "FromFeatures": [K.FromFeatures(squares)],
    "FromMatrix": [K.FromMatrix((np.eye(8) + 1).tolist())],
}

# Kernels made of others, and Precomputed, whose points are a matrix, have tests of their own.
ELSEWHERE = {
    "Composed",
    "Exp",
    "Normalized",
    "OnColumns",
    "Power",
    "Precomputed",
    "Product",
    "Rescaled",
    "Sum",
}


def strings(rng, n):
    return ["".join(rng.choice(list("ACGT"), size=9)) for _ in range(n)]


def trees(rng, n):
    def grow(depth):
        label = rng.choice(list("AB"))
        children = rng.integers(1, 3) if depth else 0
        if not children:
            return f"({label} {rng.choice(list('xy'))})"
        return f"({label} {' '.join(grow(depth - 1) for _ in range(children))})"

    return [grow(2) for _ in range(n)]


def graphs(rng, n):
    def one():
        size = int(rng.integers(3, 7))
        edges = [(i, j) for i in range(size) for j in range(i) if rng.random() < 0.5]
        return {"edges": edges, "node_labels": rng.choice(list("CN"), size=size).tolist()}

    return [one() for _ in range(n)]


def sets(rng, n):
    return [set(rng.choice(10, size=rng.integers(0, 6), replace=False).tolist()) for _ in range(n)]


def points(kernel, n, rng, d=3):
    """n random points of the kernel's domain; vectors have d features."""
    name = str(kernel.domain)
    if name == "non-negative vectors":
        return np.abs(rng.normal(size=(n, d)))
    if name == "sequences":
        return strings(rng, n)
    if name == "trees":
        return trees(rng, n)
    if name == "graphs":
        return graphs(rng, n)
    if name == "finite sets":
        return sets(rng, n)
    if name == "indices of a matrix":
        return rng.integers(0, 8, size=n)
    return rng.normal(size=(n, d))


def naive_gram(kernel, X, Y=None):
    """The Gram matrix, one pair at a time."""
    f = NAIVE[type(kernel).__name__]
    return np.array([[f(kernel, x, z) for z in (X if Y is None else Y)] for x in X], dtype=float)


def all_cases():
    return [k for kernels in CASES.values() for k in kernels]


def naive_cases():
    return [k for name, kernels in CASES.items() if name in NAIVE for k in kernels]
