"""Mistakes in what a loss call is given, as far as facts about one call show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from leadline.records import loss_facts as facts
from leadline.records.formatting import exact, significant
from leadline.records.formatting import share as percent
from leadline.records.loss_facts import ACTIVATION_NAMES, REGRESSION, Activation, LossKind
from leadline.rules import Advice
from leadline.rules.losses import loss_advice as advice
from leadline.rules.losses.given_loss import GivenLoss

_LOGIT_LOSSES: Final = frozenset({LossKind.CROSS_ENTROPY, LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS})
_BINARY_LOSSES: Final = frozenset({LossKind.BINARY_CROSS_ENTROPY, LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS})
_OF_PROBABILITIES: Final = frozenset({LossKind.BINARY_CROSS_ENTROPY, LossKind.CATEGORICAL_CROSS_ENTROPY})
_OF_CLASSES: Final = frozenset({LossKind.CROSS_ENTROPY, LossKind.CATEGORICAL_CROSS_ENTROPY})
_CLASS_LOSSES: Final = frozenset(
    {*_LOGIT_LOSSES, *_BINARY_LOSSES, *_OF_PROBABILITIES, LossKind.NLL, LossKind.KL_DIV, LossKind.LOG_LIKELIHOOD}
)
_NARROW: Final = frozenset({Activation.SOFTMAX, Activation.SIGMOID, Activation.RELU, Activation.TANH})
"""Activations after which values are no logits any more."""
_SQUASHING: Final = frozenset({Activation.SOFTMAX, Activation.LOG_SOFTMAX, Activation.SIGMOID, Activation.LOG_SIGMOID})
_FEW: Final = 0.1
"""The share of labels that may be beyond reach, or of several classes, without a finding."""
_SUM_TOLERANCE: Final = 1e-3
_EXP_SUM_TOLERANCE: Final = 1e-2
_SAME, _OTHER = 0.99, 0.9
_LOG_LOSSES: Final = frozenset({LossKind.NLL, LossKind.KL_DIV, LossKind.CTC})
"""Losses that take log-probabilities."""
_PAIR: Final = 2
"""The number of columns that stand for two classes."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in what a loss call is given."""

    name: str
    what: str
    suggestion: Advice
    fact: str
    """The fact that shows it."""
    is_certain: bool = True
    """Whether one step proves it; otherwise it depends on the values of a batch, and must be seen twice."""


def find_mistake(loss: GivenLoss) -> Mistake | None:
    """Return the gravest mistake in what a loss call is given; None: there is none."""
    return next((mistake for find in _FINDERS if (mistake := find(loss)) is not None), None)


def _softmax_of_one(loss: GivenLoss) -> Mistake | None:
    if loss.number(facts.SOFTMAX_SIZE) != 1:
        return None
    is_own = loss.kind in _OF_CLASSES and loss.activation is not Activation.SOFTMAX
    return Mistake(
        "softmax_of_one",
        f"{loss.loss} over a single class is always 0"
        if is_own
        else "softmax over one unit is always 1, whatever the model computes",
        advice.SOFTMAX_OF_ONE,
        facts.SOFTMAX_SIZE,
    )


def _swapped(loss: GivenLoss) -> Mistake | None:
    if not loss.has(facts.IS_SWAPPED) or loss.kind not in _BINARY_LOSSES:
        return None
    return Mistake(
        "swapped",
        f"{loss.loss} is given labels as predictions, and predictions as labels",
        advice.SWAPPED,
        facts.IS_SWAPPED,
    )


def _broadcast(loss: GivenLoss) -> Mistake | None:
    if not loss.has(facts.IS_BROADCAST):
        return None
    return Mistake(
        "broadcast",
        f"{loss.loss} compares each prediction with every label of the batch: shapes such as (N, 1) and (N,) are "
        "broadcast to (N, N)",
        advice.BROADCAST,
        facts.IS_BROADCAST,
    )


def _repeated_labels(loss: GivenLoss) -> Mistake | None:
    """Find labels that are compared with several predictions, in a loss whose predictions are no classes."""
    repeats = loss.number(facts.LABEL_REPEATS, 1.0)
    if repeats <= 1 or loss.kind not in REGRESSION | _BINARY_LOSSES:
        return None
    return Mistake(
        "repeated_labels",
        f"{loss.loss} compares each label with {repeats:.0f} predictions of its sample: shapes such as (N, 1) and "
        f"(N, {repeats:.0f}, 1) are broadcast",
        advice.REPEATED_LABELS,
        facts.LABEL_REPEATS,
    )


def _not_logits(loss: GivenLoss) -> Mistake | None:
    if loss.kind not in _LOGIT_LOSSES or loss.activation not in _NARROW or loss.has(facts.IS_RESCALED):
        return None
    own = "softmax" if loss.kind is LossKind.CROSS_ENTROPY else "sigmoid"
    given = ACTIVATION_NAMES[loss.activation]
    another = {
        (LossKind.CROSS_ENTROPY, Activation.SOFTMAX): ", or {nll_of_log_softmax}",
        (LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS, Activation.SIGMOID): ", or {bce_in_place_of_logits}",
    }.get((loss.kind, loss.activation), "")
    return Mistake(
        "not_logits",
        f"{loss.loss} takes logits and applies {own} itself, but is given the output of a {given}",
        advice.NOT_LOGITS[another].given(given=given),
        facts.ACTIVATION,
    )


def _double_activation(loss: GivenLoss) -> Mistake | None:
    last, inner = loss.activation, loss.inner_activation
    if last not in _SQUASHING or inner not in _NARROW or loss.kind in (LossKind.KL_DIV, LossKind.OTHER):
        return None
    return Mistake(
        "double_activation",
        f"{ACTIVATION_NAMES[last]} right after {ACTIVATION_NAMES[inner]}, with no layer in between: what {loss.loss} "
        "is given covers only a part of its range",
        advice.DOUBLE_ACTIVATION.given(inner=ACTIVATION_NAMES[inner], last=ACTIVATION_NAMES[last]),
        facts.INNER_ACTIVATION,
    )


def _not_probabilities(loss: GivenLoss) -> Mistake | None:
    """Find what is no probability before a cross entropy that takes probabilities."""
    if loss.kind not in _OF_PROBABILITIES:
        return None
    if loss.activation is Activation.NONE:
        given = "the output of a layer without an activation"
    elif loss.activation in (Activation.TANH, Activation.RELU) and not loss.has(facts.IS_RESCALED):
        given = f"the output of a {ACTIVATION_NAMES[loss.activation]}"
    elif loss.activation in (Activation.LOG_SOFTMAX, Activation.LOG_SIGMOID) and not loss.has(facts.IS_RESCALED):
        given = "logarithms of probabilities"
    elif loss.kind is LossKind.CATEGORICAL_CROSS_ENTROPY and loss.activation is Activation.SIGMOID:
        given = "the output of a sigmoid, whose values for one sample need not add up to 1"
    else:
        return None
    is_of_classes = loss.kind is LossKind.CATEGORICAL_CROSS_ENTROPY
    return Mistake(
        "not_probabilities",
        f"{loss.loss} takes probabilities, but is given {given}",
        advice.NO_SOFTMAX if is_of_classes else advice.NO_SIGMOID,
        facts.ACTIVATION,
    )


def _not_log_probabilities(loss: GivenLoss) -> Mistake | None:
    if loss.kind not in _LOG_LOSSES or not loss.number(facts.EXP_SUM_ERROR, 1.0) > _EXP_SUM_TOLERANCE:
        return None
    given = {
        Activation.SOFTMAX: "probabilities, the output of a softmax",
        Activation.SIGMOID: "the output of a sigmoid",
        Activation.RELU: "the output of a ReLU",
        Activation.TANH: "the output of a tanh",
        Activation.NONE: "the output of a layer without an activation",
        Activation.LOG_SIGMOID: "logarithms of sigmoid outputs, which are not normalized over the classes",
    }.get(loss.activation)
    is_certain = given is not None
    if given is None and _looks_like_probabilities(loss):
        given = "values that look like probabilities: none below 0, and each row adds up to 1"
    if given is None:
        return None
    return Mistake(
        "not_log_probabilities",
        f"{loss.loss} takes log-probabilities, but is given {given}",
        advice.NLL_WITHOUT_LOGARITHM if loss.kind is LossKind.NLL else advice.NO_LOGARITHM,
        facts.ACTIVATION,
        is_certain=is_certain,
    )


def _looks_like_probabilities(loss: GivenLoss) -> bool:
    is_unknown = loss.activation is Activation.UNKNOWN and loss.is_known(facts.SUM_ERROR)
    return is_unknown and loss.number(facts.SUM_ERROR) <= _SUM_TOLERANCE and loss.number(facts.PREDICTION_MIN) >= 0


def _blank(loss: GivenLoss) -> Mistake | None:
    share = loss.number(facts.BLANK_SHARE)
    if loss.kind is not LossKind.CTC or not share > 0:
        return None
    return Mistake(
        "blank",
        f"{percent(share)} of the labels that {loss.loss} is given are its blank, which stands for no label",
        advice.BLANK,
        facts.BLANK_SHARE,
    )


def _shifted_twice(loss: GivenLoss) -> Mistake | None:
    """Find labels of the token after the next one, as a model that shifts them makes of labels that are shifted."""
    _, following, after_next = (loss.number(fact) for fact in facts.LABELS_AT)
    if not (after_next >= _SAME and following <= _OTHER):
        return None
    where = "the token two positions after that of the input"
    what = f"the labels of {loss.loss} are shifted twice: {percent(after_next)} of them are {where}"
    return Mistake("shifted_twice", what, advice.SHIFTED_TWICE, facts.LABELS_AT[2], is_certain=False)


def _moving_labels(loss: GivenLoss) -> Mistake | None:
    if not loss.has(facts.HAS_MOVING_LABELS):
        return None
    return Mistake(
        "moving_labels",
        f"the labels of {loss.loss} have a gradient as well: they are something plus a multiple of an output of the "
        "model that is trained, as a reward and the value of the next state",
        advice.MOVING_LABELS,
        facts.HAS_MOVING_LABELS,
    )


def _negated(loss: GivenLoss) -> Mistake | None:
    if not loss.has(facts.IS_NEGATED):
        return None
    return Mistake(
        "negated",
        f"the negative of {loss.loss} is minimized, so that training makes the predictions worse",
        advice.NEGATED.given(loss=loss.loss),
        facts.IS_NEGATED,
    )


def _rate(loss: GivenLoss) -> Mistake | None:
    is_rate = loss.activation in (Activation.EXP, Activation.SOFTPLUS, Activation.RELU) and not loss.has(
        facts.IS_RESCALED
    )
    if loss.kind not in (LossKind.POISSON_NLL, LossKind.POISSON_LIKELIHOOD) or not is_rate:
        return None
    return Mistake(
        "rate",
        f"{loss.loss} takes the logarithm of a rate, but is given the output of a {ACTIVATION_NAMES[loss.activation]}",
        advice.RATE,
        facts.ACTIVATION,
    )


def _sigmoid_likelihood(loss: GivenLoss) -> Mistake | None:
    if loss.kind is not LossKind.LOG_LIKELIHOOD or loss.activation is not Activation.LOG_SIGMOID:
        return None
    if loss.number(facts.ONE_HOT_SHARE) != 1.0:
        return None
    return Mistake(
        "sigmoid_likelihood",
        "only the probability of the true class is rewarded, and sigmoid outputs need not add up to 1: the loss is 0 "
        "where every output is 1",
        advice.SIGMOID_LIKELIHOOD,
        facts.ACTIVATION,
        is_certain=False,
    )


def _softmax_over_batch(loss: GivenLoss) -> Mistake | None:
    if not loss.has(facts.IS_SOFTMAX_OVER_BATCH) or loss.kind not in _CLASS_LOSSES:
        return None
    if loss.kind in (LossKind.LOG_LIKELIHOOD, LossKind.CROSS_ENTROPY) and loss.number(facts.CLASSES) <= 1:
        return None  # a ranking of the samples
    return Mistake(
        "softmax_over_batch",
        "softmax is taken over the batch: it is dimension 0 that adds up to 1, not the classes",
        advice.SOFTMAX_OVER_BATCH,
        facts.IS_SOFTMAX_OVER_BATCH,
    )


def _impossible_labels(loss: GivenLoss) -> Mistake | None:
    """Find labels for which the loss itself makes no sense: most have no lower bound then."""
    if not loss.is_known(facts.LABEL_MIN):
        return None
    low, high = loss.number(facts.LABEL_MIN), loss.number(facts.LABEL_MAX)
    found = f"labels from {significant(low)} to {significant(high)}"
    if loss.kind in _BINARY_LOSSES and (low < 0 or high > 1):
        what, suggestion = (
            f"{loss.loss} takes labels from 0 to 1, but is given {found}: it falls below 0 without limit",
            advice.LABELS_OF_BINARY,
        )
    elif loss.kind is LossKind.SQUARED_LOGARITHMIC_ERROR and low < 0:
        what, suggestion = (
            f"{loss.loss} takes labels from 0 on, but is given {found}: every label below 0 counts as 0",
            advice.LABELS_OF_LOGARITHM,
        )
    elif loss.kind in (LossKind.CROSS_ENTROPY, LossKind.KL_DIV) and low < 0:
        what, suggestion = (
            f"{loss.loss} takes probabilities as labels, but is given {found}",
            advice.LABELS_OF_CLASSES,
        )
    elif loss.kind is LossKind.SOFT_MARGIN and low == 0 and loss.has(facts.ARE_LABELS_BINARY):
        what, suggestion = (
            f"{loss.loss} takes labels of -1 and 1, but is given 0 and 1: it has no gradient where the label is 0",
            advice.LABELS_OF_MARGIN,
        )
    else:
        return None
    return Mistake("impossible_labels", what, suggestion, facts.LABEL_MIN)


def _labels_out_of_reach(loss: GivenLoss) -> Mistake | None:
    share = loss.number(facts.OUT_OF_REACH_SHARE)
    reach = facts.reach(loss.activation)
    if loss.kind not in REGRESSION or not share > _FEW or reach is None or loss.has(facts.IS_RESCALED):
        return None
    low, high = loss.number(facts.LABEL_MIN), loss.number(facts.LABEL_MAX)
    bounds = f"only numbers from {exact(reach[0])} to {exact(reach[1])}"
    if reach[1] == float("inf"):
        bounds = f"no number below {exact(reach[0])}"
    elif reach[0] == float("-inf"):
        bounds = f"no number above {exact(reach[1])}"
    name = ACTIVATION_NAMES[loss.activation]
    return Mistake(
        "labels_out_of_reach",
        f"a {name} produces {bounds}, but {percent(share)} of the labels lie beyond, from "
        f"{significant(low)} to {significant(high)}",
        advice.LABELS_OUT_OF_REACH.given(name=name),
        facts.OUT_OF_REACH_SHARE,
        is_certain=False,
    )


def _two_columns(loss: GivenLoss) -> Mistake | None:
    is_one_hot = loss.number(facts.ONE_HOT_SHARE) == 1.0 and loss.number(facts.CLASSES) == _PAIR
    if loss.kind not in _BINARY_LOSSES or not is_one_hot:
        return None
    return Mistake(
        "two_columns",
        f"{loss.loss} over two columns of which exactly one is true: each sample is counted twice, by units that may "
        "contradict each other",
        advice.TWO_COLUMNS,
        facts.ONE_HOT_SHARE,
        is_certain=False,
    )


def _several_classes(loss: GivenLoss) -> Mistake | None:
    """Find labels with several true classes where the predictions add up to 1."""
    is_softmax = loss.kind is LossKind.CROSS_ENTROPY or (
        loss.kind is LossKind.BINARY_CROSS_ENTROPY and loss.activation is Activation.SOFTMAX
    )
    if not is_softmax or not loss.number(facts.MULTI_HOT_SHARE) > _FEW:
        return None
    return Mistake(
        "several_classes",
        f"{percent(loss.number(facts.MULTI_HOT_SHARE))} of the samples belong to several classes, but softmax lets the "
        "probabilities add up to 1",
        advice.SEVERAL_CLASSES,
        facts.MULTI_HOT_SHARE,
        is_certain=False,
    )


def _dropout(loss: GivenLoss) -> Mistake | None:
    if not loss.has(facts.HAS_DROPOUT) or loss.kind is LossKind.OTHER:
        return None
    return Mistake(
        "dropout",
        f"dropout is applied behind the last layer: {loss.loss} is given outputs of which some are set to 0 by chance",
        advice.DROPOUT,
        facts.HAS_DROPOUT,
    )


_FINDERS: Final[tuple[Callable[[GivenLoss], Mistake | None], ...]] = (
    _softmax_of_one,
    _swapped,
    _broadcast,
    _repeated_labels,
    _negated,
    _moving_labels,
    _blank,
    _shifted_twice,
    _not_logits,
    _not_probabilities,
    _not_log_probabilities,
    _rate,
    _impossible_labels,
    _softmax_over_batch,
    _double_activation,
    _sigmoid_likelihood,
    _labels_out_of_reach,
    _several_classes,
    _two_columns,
    _dropout,
)
"""The gravest first."""
