"""Kernels, their algebra, proofs and feature maps.

>>> from mercer import kernels as K
>>> k = 0.5 * K.RBF(gamma=2.0) + K.Polynomial(degree=2)
>>> k.validity.status
'valid'
"""

from mercer.kernels.algebra import Constant, Product, Sum
from mercer.kernels.columns import OnColumns
from mercer.kernels.given import FromFeatures, FromFunction, FromMatrix, Precomputed
from mercer.kernels.graph.collections import from_networkx
from mercer.kernels.graph.files import read_tu
from mercer.kernels.graph.graphs import Graph
from mercer.kernels.graph.kernels import Graphlet, Propagation, RandomWalk, ShortestPath
from mercer.kernels.graph.molecules import read_smiles
from mercer.kernels.graph.refinement import WeisfeilerLehman, WLOptimalAssignment
from mercer.kernels.kernel import REGISTRY, Kernel, NoFiniteFeatureMap
from mercer.kernels.parsing import KernelSyntaxError, parse
from mercer.kernels.power import Power
from mercer.kernels.set.sets import SetConjunction, SetIntersection, SetJaccard
from mercer.kernels.string.files import read_fasta
from mercer.kernels.string.mismatches import Mismatch
from mercer.kernels.string.subsequences import Subsequence
from mercer.kernels.string.substrings import Substring
from mercer.kernels.string.weighted_degree import WeightedDegree
from mercer.kernels.string.words import Gappy, Spectrum
from mercer.kernels.transformations import Composed, Exp, Normalized, Rescaled, exp, sqnorm
from mercer.kernels.tree.trees import PartialTree, SubsetTree, Subtree, Tree
from mercer.kernels.vector.distance import (
    RBF,
    Exponential,
    Laplacian,
    Matern,
    Periodic,
    RationalQuadratic,
)
from mercer.kernels.vector.dot_product import Conjunction, Cosine, Linear, Polynomial, Sigmoid
from mercer.kernels.vector.histogram import Chi2, Min, Tanimoto
from mercer.kernels.vector.transition import Transition, change_point
from mercer.kernels.vector_kernel import ScaledKernel, VectorKernel

__all__ = [
    "RBF",
    "REGISTRY",
    "Chi2",
    "Composed",
    "Conjunction",
    "Constant",
    "Cosine",
    "Exp",
    "Exponential",
    "FromFeatures",
    "FromFunction",
    "FromMatrix",
    "Gappy",
    "Graph",
    "Graphlet",
    "Kernel",
    "KernelSyntaxError",
    "Laplacian",
    "Linear",
    "Matern",
    "Min",
    "Mismatch",
    "NoFiniteFeatureMap",
    "Normalized",
    "OnColumns",
    "PartialTree",
    "Periodic",
    "Polynomial",
    "Power",
    "Precomputed",
    "Product",
    "Propagation",
    "RandomWalk",
    "RationalQuadratic",
    "Rescaled",
    "ScaledKernel",
    "SetConjunction",
    "SetIntersection",
    "SetJaccard",
    "ShortestPath",
    "Sigmoid",
    "Spectrum",
    "Subsequence",
    "SubsetTree",
    "Substring",
    "Subtree",
    "Sum",
    "Tanimoto",
    "Transition",
    "Tree",
    "VectorKernel",
    "WLOptimalAssignment",
    "WeightedDegree",
    "WeisfeilerLehman",
    "change_point",
    "exp",
    "from_networkx",
    "parse",
    "read_fasta",
    "read_smiles",
    "read_tu",
    "sqnorm",
]
