"""What the adapter of each framework records: facts about loss calls, checks of the training, collections."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from leadline.records import loss_facts as facts
from leadline.records import names
from leadline.records.needs import TensorNeed

TORCH, KERAS, TENSORFLOW, MXNET, JAX = "PyTorch", "Keras on PyTorch", "TensorFlow", "MXNet", "JAX"

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
    TORCH: _TRACED
    | _LABELS
    | _PROBABILITIES
    | _SHAPES
    | {facts.IS_SOFTMAX_OVER_BATCH, facts.IS_SWAPPED, facts.IS_NEGATED, facts.IGNORE_INDEX, facts.IGNORED_SHARE}
    | {*facts.LABELS_AT, facts.LABELS_OF_PADDING, facts.DOUBLED_FIRST, facts.IS_ONE_OF_PAIRS, facts.HAS_SELF_PAIRS}
    | {facts.HAS_CLASS_WEIGHTS, facts.WEIGHT_OF_LABELS, facts.HAS_MOVING_LABELS}
    | {facts.IGNORED_TOKENS, facts.IS_WEIGHTED_BY_ITS_MEAN, facts.OWN_NEGATIVES},
    KERAS: _KERAS | {facts.IS_SOFTMAX_OVER_BATCH},
    TENSORFLOW: _KERAS,
    MXNET: _TRACED | _LABELS | _PROBABILITIES | _SHAPES | {facts.IS_SOFTMAX_OVER_BATCH, facts.IS_SWAPPED},
    JAX: _TRACED
    | _LABELS
    | _PROBABILITIES
    | _SHAPES
    | {facts.IS_SOFTMAX_OVER_BATCH, facts.IS_SWAPPED, facts.IS_NEGATED, facts.LABEL_REPEATS},
}
"""By framework; the contract test of each adapter compares it with what a training has recorded."""
_ALL: Final = frozenset({TORCH, KERAS, TENSORFLOW, MXNET, JAX})
_ONLY_TORCH: Final = frozenset({TORCH})
_OF_MODES: Final = "the modes of layers"
_OF_STARTS: Final = "optimizers that are made again and weights that are initialized again"
_OF_AVERAGES: Final = "averages of normalizations"
_OF_MEMORY: Final = "the memory of the process"

RECORDED_CHECKS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "steps_without_zero_grad": ("gradients that are left from the step before", _ALL - {KERAS}),
    "train_steps_in_eval_mode": (_OF_MODES, frozenset({TORCH, TENSORFLOW, JAX})),
    "eval_calls_in_train_mode": (_OF_MODES, _ONLY_TORCH),
    "other_calls_with_dropout": (_OF_MODES, _ONLY_TORCH),
    "frozen_batch_norms": (_OF_MODES, _ONLY_TORCH),
    facts.CONSECUTIVE_LINEAR: ("the order of layers", frozenset({TORCH, KERAS, TENSORFLOW})),
    facts.IDENTICAL_UNITS: ("units with equal weights", frozenset({TORCH, KERAS})),
    names.MADE_ANEW: (_OF_STARTS, frozenset({TORCH, JAX})),
    names.INITIALIZED_AGAIN: (_OF_STARTS, _ONLY_TORCH),
    names.STATE_NOT_LOADED: (_OF_STARTS, _ONLY_TORCH),
    names.SCHEDULE_NOT_LOADED: (_OF_STARTS, _ONLY_TORCH),
    names.NONFINITE_AVERAGES: (_OF_AVERAGES, _ONLY_TORCH),
    names.NONFINITE_AVERAGE: (_OF_AVERAGES, _ONLY_TORCH),
    names.INITIAL_AVERAGES: (_OF_AVERAGES, _ONLY_TORCH),
    names.INITIAL_AVERAGE: (_OF_AVERAGES, _ONLY_TORCH),
    names.RECOMPILATIONS: ("compiling again", _ONLY_TORCH),
    names.RECOMPILE_LIMIT: ("compiling again", _ONLY_TORCH),
    **dict.fromkeys((name.rpartition("/")[2] for name in names.PROCESS_MEMORY), (_OF_MEMORY, _ALL)),
}
"""The checks of a training without which some rule cannot decide: what they are about, and the frameworks with them."""
UNRECORDED_COLLECTIONS: Final[Mapping[str, frozenset[str]]] = {JAX: frozenset({"hyperparameters"})}
"""Collections that the adapter of a framework never has; what the script logs may still be in them."""


def recorded_framework(label: str) -> str:
    """Return the framework of this table that trains; empty: none of them, several, or not known.

    Args:
        label: As a worker document has it, ``keras 3.15.1 (PyTorch)``.
    """
    begins = {"torch ": TORCH, "keras ": KERAS, "tensorflow ": TENSORFLOW, "mxnet ": MXNET, "jax ": JAX}
    found = [framework for begin, framework in begins.items() if label.startswith(begin)]
    return found[0] if found and "," not in label else ""


def checks_of(needs: Sequence[TensorNeed]) -> list[str]:
    """Return the checks of the table that the needs of a rule without which it is undecided select."""
    required = [need for need in needs if need.collection == names.CHECKS and not need.is_optional]
    return [
        check for check in RECORDED_CHECKS if any(re.search(need.regex or "", f"process/{check}") for need in required)
    ]


def why_unrecorded(needs: Sequence[TensorNeed], framework: str) -> str:
    """Return why a rule with these needs can decide nothing with a framework; empty: it can, as far as known.

    Args:
        framework: As ``recorded_framework`` returns it.
    """
    checks = checks_of(needs)
    if framework and checks and not any(framework in RECORDED_CHECKS[check][1] for check in checks):
        return f"Leadline does not record {RECORDED_CHECKS[checks[0]][0]} for {framework}"
    collections = [need.collection for need in needs if not need.is_optional]
    never = [name for name in collections if name in UNRECORDED_COLLECTIONS.get(framework, ())]
    return f"Leadline does not record {never[0]} for {framework}" if never else ""
