"""Gram operators: dense, tiled, from features, centred; and the choice between them."""

from mercer.operators.choice import (
    POINTS_PER_FEATURE,
    expansion,
    gram,
    gram_operator,
    small_feature_map,
)
from mercer.operators.gram import (
    CentredGram,
    CorrectedGram,
    DenseGram,
    FeatureGram,
    GramOperator,
    TiledGram,
)
from mercer.operators.scaled import ScaledGram
from mercer.operators.spectrum import corrected, first_indefinite, is_indefinite
from mercer.operators.streams import streamed
from mercer.operators.tensors import TensorGram

__all__ = [
    "POINTS_PER_FEATURE",
    "CentredGram",
    "CorrectedGram",
    "DenseGram",
    "FeatureGram",
    "GramOperator",
    "ScaledGram",
    "TensorGram",
    "TiledGram",
    "corrected",
    "expansion",
    "first_indefinite",
    "gram",
    "gram_operator",
    "is_indefinite",
    "small_feature_map",
    "streamed",
]
