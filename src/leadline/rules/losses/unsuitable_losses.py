"""Losses and metrics that do not fit the task, as far as facts about one loss call show it."""

from __future__ import annotations

from typing import Final

from leadline.records import loss_facts as facts
from leadline.records.formatting import share as percent
from leadline.records.formatting import significant
from leadline.records.loss_facts import REGRESSION, Activation, LossKind
from leadline.rules import Advice
from leadline.rules.losses.given_loss import GivenLoss
from leadline.rules.losses.loss_mistakes import Mistake

_TWO_CLASSES: Final = 2
_ACCURACY: Final = Advice("the mean absolute error as a metric; usually a metric for classifications was kept")
_REGRESSION: Final = Advice("{bce_with_logits} on the output of the last layer; usually a loss for regression was kept")
_REGRESSION_OF_ONE_HOT: Final = Advice(
    "{cross_entropy} on the output of the last layer; usually a loss for regression was kept"
)
_BINARY: Final = Advice(
    "{cross_entropy} on the output of the last layer, without the softmax; usually the loss was meant for two classes"
)
_NOT_SHIFTED: Final = Advice(
    "labels[:, 1:] with logits[:, :-1], if the model is to predict the next token; where it is to repeat its input (an "
    "autoencoder), this is right"
)
_PADDED: Final = Advice(
    "the index that the loss ignores (ignore_index) as the label of padding, or the padding's as that index; usually "
    "labels were padded like the inputs"
)
_DOUBLED: Final = Advice(
    "add_special_tokens=False where the template brings the token of the beginning itself; usually the tokenizer adds "
    "another one"
)
_WEIGHTS: Final = Advice(
    "weights that fall with the number of samples of a class (their total, divided by the count of the class); usually "
    "the shares of the classes were given in place of their inverses"
)
_PAIRS: Final = Advice(
    "arange(N) as labels, where the i-th output of a sample is for its own partner; a constant label is right where "
    "the partner always comes first"
)
_SELF_PAIRS: Final = Advice(
    "masked_fill of the diagonal with -inf before the loss, so that no sample is a candidate for itself"
)
_OWN_NEGATIVES: Final = Advice(
    "masked_fill with -inf where the item of a column is that of the row and not on the diagonal, or batches in which "
    "an item occurs once (a sampler without duplicates)"
)
_WEIGHTED_BY_ITS_MEAN: Final = Advice(
    "the losses of the samples (reduction='none') for the factor, and the mean at the end; with one sample, or for the "
    "loss of a whole group, a factor of the mean is right"
)
REGRESSION_OF_CLASSES: Final = "regression_of_classes"
_HEAVIER: Final = 1.4
_MANY: Final = 0.1
_LIKELIHOODS: Final = frozenset(
    {LossKind.CROSS_ENTROPY, LossKind.NLL, LossKind.BINARY_CROSS_ENTROPY, LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS}
)
_SAME, _OTHER = 0.99, 0.9
_MUCH_PADDING, _NEARLY_ALL = 0.1, 0.9


def find_unfitting_loss(loss: GivenLoss) -> Mistake | None:
    """Return why another loss, or metric, would suit the labels better; None: none is known."""
    return (
        _weighted_by_its_mean(loss)
        or _loss_of_another_task(loss)
        or _accuracy_of_regression(loss)
        or _of_classes(loss)
        or _of_tokens(loss)
    )


def _weighted_by_its_mean(loss: GivenLoss) -> Mistake | None:
    if not loss.has(facts.IS_WEIGHTED_BY_ITS_MEAN) or loss.kind not in _LIKELIHOODS:
        return None
    return Mistake(
        "weighted_by_its_mean",
        f"the mean of {loss.loss} over a batch is multiplied by a function of its own exponential, as a focal loss "
        "does for each sample: all samples get the same factor",
        _WEIGHTED_BY_ITS_MEAN,
        facts.IS_WEIGHTED_BY_ITS_MEAN,
        is_certain=False,
    )


def _of_classes(loss: GivenLoss) -> Mistake | None:
    """Return what is unusual in labels that are class indices, and in their weights."""
    ratio = loss.number(facts.WEIGHT_OF_LABELS)
    if ratio >= _HEAVIER:
        return Mistake(
            "weights_of_frequent_classes",
            f"the class weights of {loss.loss} are larger for frequent classes: their mean over the labels is "
            f"{significant(ratio)} times that over the classes among them, so that rare classes hardly count",
            _WEIGHTS,
            facts.WEIGHT_OF_LABELS,
            is_certain=False,
        )
    samples = f"{loss.number(facts.CLASSES):.0f}"
    if loss.has(facts.HAS_SELF_PAIRS):
        return Mistake(
            "self_pairs",
            f"{loss.loss} is given an output for each pair of {samples} samples, those of each sample with itself "
            "included: they are the largest, and no label asks for them",
            _SELF_PAIRS,
            facts.HAS_SELF_PAIRS,
            is_certain=False,
        )
    share = loss.number(facts.OWN_NEGATIVES)
    if share > _MANY:
        return Mistake(
            "own_negatives",
            f"{loss.loss} is given an output for each pair of {samples} samples, and for {percent(share)} of them the "
            "right output equals other ones at all samples, to the bit, as where an item occurs several times in the "
            "batch: it is its own negative",
            _OWN_NEGATIVES,
            facts.OWN_NEGATIVES,
            is_certain=False,
        )
    if not loss.has(facts.IS_ONE_OF_PAIRS):
        return None
    return Mistake(
        "one_of_pairs",
        f"{loss.loss} is given an output for each pair of {samples} samples ({samples} x {samples}), and one and the "
        "same index as the label of all: each sample is to match one of them",
        _PAIRS,
        facts.IS_ONE_OF_PAIRS,
        is_certain=False,
    )


def _of_tokens(loss: GivenLoss) -> Mistake | None:
    """Return what is unusual in the tokens and labels of sequences."""
    return _labels_of_the_input(loss) or _labels_of_padding(loss) or _doubled_first(loss)


def _labels_of_padding(loss: GivenLoss) -> Mistake | None:
    share = loss.number(facts.LABELS_OF_PADDING)
    if not share > _MUCH_PADDING:
        return None
    return Mistake(
        "labels_of_padding",
        f"{percent(share)} of the labels that {loss.loss} counts are at positions at which the model is given padding",
        _PADDED,
        facts.LABELS_OF_PADDING,
        is_certain=False,
    )


def _doubled_first(loss: GivenLoss) -> Mistake | None:
    share = loss.number(facts.DOUBLED_FIRST)
    if not share > _NEARLY_ALL:
        return None
    return Mistake(
        "doubled_first",
        f"{percent(share)} of the sequences that the model is given begin with the same token twice",
        _DOUBLED,
        facts.DOUBLED_FIRST,
        is_certain=False,
    )


def _labels_of_the_input(loss: GivenLoss) -> Mistake | None:
    same, following, _ = (loss.number(fact) for fact in facts.LABELS_AT)
    if not (same >= _SAME and following <= _OTHER):
        return None
    return Mistake(
        "labels_of_the_input",
        f"{percent(same)} of the labels of {loss.loss} are the token that the model is given at the same position: it "
        "is to repeat its input, not to predict the next token",
        _NOT_SHIFTED,
        facts.LABELS_AT[0],
        is_certain=False,
    )


def _accuracy_of_regression(loss: GivenLoss) -> Mistake | None:
    are_whole = loss.number(facts.ARE_LABELS_WHOLE, 1.0) == 1.0
    if loss.kind not in REGRESSION or not loss.has(facts.HAS_ACCURACY) or are_whole:
        return None
    return Mistake(
        "accuracy_of_regression",
        f"an accuracy beside {loss.loss}, on labels that are no classes: it counts predictions that equal their label "
        "exactly, and stays near 0 however well the model learns",
        _ACCURACY,
        facts.HAS_ACCURACY,
        is_certain=False,
    )


def _loss_of_another_task(loss: GivenLoss) -> Mistake | None:
    is_single = loss.number(facts.CLASSES) == 1 or loss.number(facts.ONE_HOT_SHARE) == 1.0
    has_both = (loss.numbers.get(facts.LABEL_MIN), loss.numbers.get(facts.LABEL_MAX)) == (0.0, 1.0)
    if not loss.has(facts.ARE_LABELS_BINARY) or not has_both or not is_single:
        return None
    if loss.kind in REGRESSION:
        is_one_hot = loss.number(facts.CLASSES) > 1
        return Mistake(
            REGRESSION_OF_CLASSES,
            f"{loss.loss} on labels that are just 0 and 1: a classification by a regression loss, whose gradient "
            "vanishes where the model is confidently wrong",
            _REGRESSION_OF_ONE_HOT if is_one_hot else _REGRESSION,
            facts.ARE_LABELS_BINARY,
            is_certain=False,
        )
    is_softmax = loss.activation is Activation.SOFTMAX and loss.number(facts.CLASSES) > _TWO_CLASSES
    if loss.kind is LossKind.BINARY_CROSS_ENTROPY and is_softmax:
        return Mistake(
            "binary_loss_of_softmax",
            f"{loss.loss} of a softmax over {loss.number(facts.CLASSES):.0f} classes of which one is true",
            _BINARY,
            facts.ACTIVATION,
            is_certain=False,
        )
    return None
