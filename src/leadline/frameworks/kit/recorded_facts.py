"""The facts about loss calls that each adapter records, if the inputs of a loss show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leadline.records import loss_facts as facts

_TRACED: Final = frozenset(
    {facts.KIND, facts.ACTIVATION, facts.INNER_ACTIVATION, facts.IS_RESCALED, facts.HAS_DROPOUT, facts.SOFTMAX_SIZE}
)
LABEL_FACTS: Final = (
    facts.LABEL_MIN,
    facts.LABEL_MAX,
    facts.ARE_LABELS_BINARY,
    facts.ARE_LABELS_WHOLE,
    facts.ONE_HOT_SHARE,
    facts.MULTI_HOT_SHARE,
    facts.OUT_OF_REACH_SHARE,
)
"""What the labels show."""
PROBABILITY_FACTS: Final = (facts.SUM_ERROR, facts.EXP_SUM_ERROR, facts.PREDICTION_MIN)
"""What predictions show that may be probabilities."""
_LABELS: Final = frozenset(LABEL_FACTS)
_PROBABILITIES: Final = frozenset(PROBABILITY_FACTS)
_SHAPES: Final = frozenset({facts.CLASSES, facts.IS_BROADCAST})
_KERAS: Final = _TRACED | _LABELS | _SHAPES | {facts.LABEL_REPEATS, facts.IS_WHOLE_LOSS, facts.HAS_ACCURACY}

RECORDED_FACTS: Final[Mapping[str, frozenset[str]]] = {
    "PyTorch": _TRACED
    | _LABELS
    | _PROBABILITIES
    | _SHAPES
    | {facts.IS_SOFTMAX_OVER_BATCH, facts.IS_SWAPPED, facts.IS_NEGATED, facts.IGNORE_INDEX, facts.IGNORED_SHARE}
    | {*facts.LABELS_AT, facts.LABELS_OF_PADDING, facts.DOUBLED_FIRST, facts.IS_ONE_OF_PAIRS, facts.HAS_SELF_PAIRS}
    | {facts.HAS_CLASS_WEIGHTS, facts.WEIGHT_OF_LABELS, facts.HAS_MOVING_LABELS}
    | {facts.IGNORED_TOKENS, facts.IS_WEIGHTED_BY_ITS_MEAN, facts.OWN_NEGATIVES},
    "Keras on PyTorch": _KERAS | {facts.IS_SOFTMAX_OVER_BATCH},
    "TensorFlow": _KERAS,
    "MXNet": _TRACED | _LABELS | _PROBABILITIES | _SHAPES | {facts.IS_SOFTMAX_OVER_BATCH, facts.IS_SWAPPED},
    "JAX": _TRACED
    | _LABELS
    | _PROBABILITIES
    | _SHAPES
    | {facts.IS_SOFTMAX_OVER_BATCH, facts.IS_SWAPPED, facts.IS_NEGATED, facts.LABEL_REPEATS},
}
"""By framework; the contract test of each adapter compares it with what a training has recorded."""
