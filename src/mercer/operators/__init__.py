"""Gram operators: dense, tiled, from features, centred; and the choice between them."""

from mercer.operators.choice import FEATURES_PAY, expansion, gram, gram_operator, small_feature_map
from mercer.operators.gram import (
    CentredGram,
    CorrectedGram,
    DenseGram,
    FeatureGram,
    GramOperator,
    TiledGram,
)
from mercer.operators.spectrum import corrected, first_indefinite, is_indefinite
from mercer.operators.streams import streamed
from mercer.operators.tensors import TensorGram

__all__ = [
    "FEATURES_PAY",
    "CentredGram",
    "CorrectedGram",
    "DenseGram",
    "FeatureGram",
    "GramOperator",
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
