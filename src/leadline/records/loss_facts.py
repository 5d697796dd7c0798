"""Facts about what a loss call is given: their names, units and codes, the same for every framework."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

FACT_STEPS: Final = 2
"""Facts are captured in so many first train steps."""


class LossKind(IntEnum):
    """What a loss call computes, whether a function of the framework does it or the script by hand."""

    UNKNOWN = 0
    """Nothing that is known here, or computed where the graph does not show it."""
    CROSS_ENTROPY = 1
    """Of logits: it applies softmax."""
    NLL = 2
    """Negative log-likelihood of log-probabilities."""
    BINARY_CROSS_ENTROPY = 3
    """Of probabilities."""
    BINARY_CROSS_ENTROPY_WITH_LOGITS = 4
    """Of logits: it applies sigmoid."""
    KL_DIV = 5
    """Of log-probabilities and, as labels, probabilities."""
    SQUARED_ERROR = 6
    ABSOLUTE_ERROR = 7
    SMOOTH_ABSOLUTE_ERROR = 8
    """Smooth L1 and Huber."""
    LOG_LIKELIHOOD = 9
    """A mean of logarithms of probabilities, written by hand."""
    SOFT_MARGIN = 10
    """Of scores and labels of -1 and 1."""
    OTHER = 11
    """An expression of the script, of the output of a softmax."""
    CTC = 12
    """Of log-probabilities of sequences, with the classes in the last dimension."""
    CATEGORICAL_CROSS_ENTROPY = 13
    """Of probabilities over the classes."""
    POISSON_NLL = 14
    """Of the logarithm of a rate: ``exp(x) - y * x``."""
    SQUARED_LOGARITHMIC_ERROR = 15
    """Of ``log(1 + x)`` and ``log(1 + y)``, for predictions and labels that are clipped at 0."""
    POISSON_LIKELIHOOD = 16
    """As ``POISSON_NLL``, with the part that depends on the labels alone: Stirling's approximation of ``log(y!)``."""


class Activation(IntEnum):
    """The function that computed a tensor."""

    UNKNOWN = 0
    """The graph does not show it, or it is a computation that is not known here."""
    NONE = 1
    """A layer: linear, convolution or normalization."""
    SOFTMAX = 2
    LOG_SOFTMAX = 3
    """Also the logarithm of a softmax."""
    SIGMOID = 4
    LOG_SIGMOID = 5
    """Also the logarithm of a sigmoid."""
    TANH = 6
    RELU = 7
    SOFTPLUS = 8
    EXP = 9
    OTHER = 10
    """An activation without a use before a loss: GELU, ELU …"""


LOSS_NAMES: Final = {
    LossKind.CROSS_ENTROPY: "cross entropy",
    LossKind.NLL: "negative log-likelihood",
    LossKind.BINARY_CROSS_ENTROPY: "binary cross entropy",
    LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS: "binary cross entropy with logits",
    LossKind.KL_DIV: "KL divergence",
    LossKind.SQUARED_ERROR: "squared error",
    LossKind.ABSOLUTE_ERROR: "absolute error",
    LossKind.SMOOTH_ABSOLUTE_ERROR: "smooth absolute error",
    LossKind.LOG_LIKELIHOOD: "log-likelihood",
    LossKind.SOFT_MARGIN: "soft margin loss",
    LossKind.OTHER: "the loss",
    LossKind.CTC: "CTC loss",
    LossKind.CATEGORICAL_CROSS_ENTROPY: "categorical cross entropy",
    LossKind.POISSON_NLL: "Poisson negative log-likelihood",
    LossKind.POISSON_LIKELIHOOD: "Poisson negative log-likelihood",
    LossKind.SQUARED_LOGARITHMIC_ERROR: "squared logarithmic error",
}
"""What messages call them."""
ACTIVATION_NAMES: Final = {
    Activation.SOFTMAX: "softmax",
    Activation.LOG_SOFTMAX: "log_softmax",
    Activation.SIGMOID: "sigmoid",
    Activation.LOG_SIGMOID: "logsigmoid",
    Activation.TANH: "tanh",
    Activation.RELU: "ReLU",
    Activation.SOFTPLUS: "softplus",
    Activation.EXP: "exp",
}
"""What messages call them."""

_REACH: Final = {
    Activation.SOFTMAX: (0.0, 1.0),
    Activation.SIGMOID: (0.0, 1.0),
    Activation.TANH: (-1.0, 1.0),
    Activation.RELU: (0.0, float("inf")),
    Activation.SOFTPLUS: (0.0, float("inf")),
    Activation.EXP: (0.0, float("inf")),
    Activation.LOG_SOFTMAX: (float("-inf"), 0.0),
    Activation.LOG_SIGMOID: (float("-inf"), 0.0),
}
REGRESSION: Final = frozenset({LossKind.SQUARED_ERROR, LossKind.ABSOLUTE_ERROR, LossKind.SMOOTH_ABSOLUTE_ERROR})
"""Losses of a distance between predictions and labels."""


def reach(activation: Activation) -> tuple[float, float] | None:
    """Return the smallest and the largest value that an activation has; None: any, or not known."""
    return _REACH.get(activation)


KIND: Final = "loss_kind"
"""A code of ``LossKind``."""
ACTIVATION: Final = "activation"
"""A code of ``Activation``: the last one between the model and the loss. For cross entropy, below its own softmax."""
INNER_ACTIVATION: Final = "inner_activation"
"""A code of ``Activation``: the one right before the last, with no layer in between."""
IS_RESCALED: Final = "is_rescaled"
"""1 if the activation's output is shifted or scaled before the loss, by a constant or by something unknown; else 0."""
HAS_DROPOUT: Final = "has_dropout"
"""1 if dropout is applied behind the last layer; else 0."""
SOFTMAX_SIZE: Final = "softmax_size"
"""The number of elements over which a softmax before the loss, or its own, is taken; the smallest of several."""
IS_SOFTMAX_OVER_BATCH: Final = "is_softmax_over_batch"
"""1 if a softmax is taken over the first of several dimensions; else 0."""
IS_BROADCAST: Final = "is_broadcast"
"""1 if predictions and labels of N samples are expanded to N x N; else 0."""
LABEL_REPEATS: Final = "label_repeats"
"""The number of predictions of its sample with which each label is compared, because a dimension of it is of size 1."""
IS_SWAPPED: Final = "is_swapped"
"""1 if the labels depend on parameters and the predictions do not; else 0."""
IS_NEGATED: Final = "is_negated"
"""1 if the negative of the loss is minimized, and nothing else in the same backward pass; else 0."""
CLASSES: Final = "classes"
"""The size of the predictions' second dimension; 1 for one number per sample."""
LABEL_MIN: Final = "label_min"
"""The smallest label; like all facts about labels only where labels are numbers, not class indices."""
LABEL_MAX: Final = "label_max"
"""The largest label."""
ARE_LABELS_BINARY: Final = "are_labels_binary"
"""1 if each label is 0 or 1; else 0."""
ARE_LABELS_WHOLE: Final = "are_labels_whole"
"""1 if each label is a whole number; else 0."""
ONE_HOT_SHARE: Final = "one_hot_share"
"""The share of rows of binary labels, of two columns or more, that contain a single 1; from 8 rows on."""
MULTI_HOT_SHARE: Final = "multi_hot_share"
"""The share of such rows that contain several 1; from 8 rows on, too."""
OUT_OF_REACH_SHARE: Final = "out_of_reach_share"
"""The share of labels that the activation cannot produce."""
SUM_ERROR: Final = "sum_error"
"""The largest distance from 1 of a sum of predictions over the classes."""
EXP_SUM_ERROR: Final = "exp_sum_error"
"""The largest distance from 1 of a sum of exponentials of predictions over the classes."""
PREDICTION_MIN: Final = "prediction_min"
"""The smallest prediction."""
BLANK_SHARE: Final = "blank_share"
"""The share of the labels of a CTC loss that are its blank; what is beyond the length of a sequence is no label."""
IGNORE_INDEX: Final = "ignore_index"
"""The class index that a loss of class indices ignores."""
IGNORED_SHARE: Final = "ignored_share"
"""The share of the labels of such a loss that are this index."""
IGNORED_TOKENS: Final = "ignored_tokens"
"""The number of different tokens that the model is given where such a loss ignores the label, between labels that it
counts; only where the ignored index is one of the classes, and there are fewer classes than tokens."""
HAS_CLASS_WEIGHTS: Final = "has_class_weights"
"""1 where a loss of class indices is given weights of the classes; else it is absent."""
WEIGHT_OF_LABELS: Final = "weight_of_labels"
"""The mean class weight of the labels, as a multiple of that of the classes among them; from 16 labels on. Weights that
fall with the number of samples of a class are below 1."""
HAS_MOVING_LABELS: Final = "has_moving_labels"
"""1 if the labels of a regression are something plus a multiple of an output of the same parameters as the predictions,
and have a gradient, too; 0 if they have one otherwise; else it is absent."""
IS_WEIGHTED_BY_ITS_MEAN: Final = "is_weighted_by_its_mean"
"""1 if the mean of the loss over several samples is multiplied by a function of its own exponential; else it is
absent."""
IS_ONE_OF_PAIRS: Final = "is_one_of_pairs"
"""1 if the predictions are products of N samples with N others, and all labels are one index; else 0; from 4 on."""
HAS_SELF_PAIRS: Final = "has_self_pairs"
"""1 if the predictions are products of N samples with the same N, that with itself is the largest of each, and no label
asks for it; else 0; from 4 on."""
OWN_NEGATIVES: Final = "own_negatives"
"""The share of N samples, whose predictions are products with N others and whose labels are these in their order, that
have another one with the same predictions for all samples, to the bit; 0 if there are not two that occur again; from 4
on, up to 1,024."""
LABELS_AT: Final = ("labels_at_same_position", "labels_at_next_position", "labels_at_position_after_next")
"""The share of the labels, without ignored ones, that are the token that the model is given at the same position of a
sequence, at the next one, and at the one after it."""
LABELS_OF_PADDING: Final = "labels_of_padding"
"""The share of the labels, without ignored ones, at positions at the beginning or end of a sequence at which the model
is given nothing but padding (``padding_idx``)."""
DOUBLED_FIRST: Final = "doubled_first_token"
"""The share of the sequences whose first two tokens are equal, and the third is another one."""
SEQUENCES: Final = "sequences"
"""The number of sequences that a causal language model of Transformers is given by name, with labels; like all facts
behind it of at most 65,536 tokens."""
LABELS_OF_INPUT: Final = "labels_of_input"
"""The share of the labels, without ignored ones, that are the token at the same place; 1 where the model
shifts them."""
LABEL_SHARE: Final = "label_share"
"""The share of the tokens, without padding, whose labels are not ignored."""
PADDING_SHARE: Final = "padding_share"
"""The share of the positions that the attention mask leaves out."""
COMMON_START: Final = "common_start"
"""The number of tokens that all of the sequences begin with."""
COMMON_LABELS: Final = "common_labels"
"""The number of these tokens, without the first, that are labels in all of the sequences."""
INNER_START: Final = "inner_start"
"""The number of places in the first sequence, behind the common beginning, at which four tokens begin that each of the
first 16 sequences holds; of a vocabulary of at least 512 tokens."""
BEGIN_TOKEN: Final = "begin_token"
"""The token that begins a text, as the configuration of a model from a file says, unless it ends texts, too."""
BEGIN_SEQUENCES: Final = "begin_sequences"
"""The number of sequences in which that token occurs."""
END_TOKEN: Final = "end_token"
"""The token that ends a text, as the configuration of the model says; of several the first."""
END_SEQUENCES: Final = "end_sequences"
"""The number of sequences in which such a token occurs, padding left out as far as the mask shows it."""
END_LABELS: Final = "end_labels"
"""How often such a token is a label."""
ENDED_SEQUENCES: Final = "ended_sequences"
"""The number of sequences whose last token is such a token, and that hold none before it."""
CUT_SEQUENCES: Final = "cut_sequences"
"""The number of sequences without such a token that have no padding, and a label at their end; only with a mask."""
SEQUENCES_WITHOUT_LABELS: Final = "sequences_without_labels"
"""The number of sequences of which every label is ignored."""
IS_END_PADDING: Final = "is_end_padding"
"""1 if such a token is that of padding, too; else 0."""
MIXED_ROWS: Final = "mixed_rows"
"""The number of rows that hold several samples, as positions that begin again at 0 show, and in which each sample
attends to those before it."""
EQUAL_ROWS: Final = "equal_rows"
"""The number of tokens in the batch whose row in the frozen embedding equals that of another one, among the last 256 of
the vocabulary."""
NEW_ROWS: Final = "new_rows"
"""The number of tokens in the batch whose row was added, in this process, to an embedding that is frozen."""
IS_WHOLE_LOSS: Final = "is_whole_loss"
"""1 if the loss of a step is the mean of this loss call and nothing else, neither weighted nor scaled; else 0."""
HAS_ACCURACY: Final = "has_accuracy"
"""1 if the share of correct predictions is computed of what the loss call is given; else 0."""

FACTS: Final = (
    KIND,
    ACTIVATION,
    INNER_ACTIVATION,
    IS_RESCALED,
    HAS_DROPOUT,
    SOFTMAX_SIZE,
    IS_SOFTMAX_OVER_BATCH,
    IS_BROADCAST,
    LABEL_REPEATS,
    IS_SWAPPED,
    IS_NEGATED,
    CLASSES,
    LABEL_MIN,
    LABEL_MAX,
    ARE_LABELS_BINARY,
    ARE_LABELS_WHOLE,
    ONE_HOT_SHARE,
    MULTI_HOT_SHARE,
    OUT_OF_REACH_SHARE,
    SUM_ERROR,
    EXP_SUM_ERROR,
    PREDICTION_MIN,
    BLANK_SHARE,
    IGNORE_INDEX,
    IGNORED_SHARE,
    IGNORED_TOKENS,
    HAS_CLASS_WEIGHTS,
    WEIGHT_OF_LABELS,
    HAS_MOVING_LABELS,
    IS_WEIGHTED_BY_ITS_MEAN,
    IS_ONE_OF_PAIRS,
    HAS_SELF_PAIRS,
    OWN_NEGATIVES,
    *LABELS_AT,
    LABELS_OF_PADDING,
    DOUBLED_FIRST,
    SEQUENCES,
    LABELS_OF_INPUT,
    LABEL_SHARE,
    PADDING_SHARE,
    COMMON_START,
    COMMON_LABELS,
    INNER_START,
    BEGIN_TOKEN,
    BEGIN_SEQUENCES,
    END_TOKEN,
    END_SEQUENCES,
    END_LABELS,
    ENDED_SEQUENCES,
    CUT_SEQUENCES,
    SEQUENCES_WITHOUT_LABELS,
    IS_END_PADDING,
    MIXED_ROWS,
    EQUAL_ROWS,
    NEW_ROWS,
    IS_WHOLE_LOSS,
    HAS_ACCURACY,
)
"""The facts of a loss call, in the collection ``checks`` under ``<loss call>/<fact>``. What is not known is absent."""

BACKWARD_PASSES: Final = "backward_passes"
"""The number of backward passes of the first train step that began at one place of the script, each with a loss of the
same name (``<loss>/backward_passes``). More than one accumulate their gradients."""
IS_SUM: Final = "is_sum"
"""1 if the losses of samples are added up in such a loss; 0 if it is their mean (``<loss>/is_sum``)."""
IS_SCALED: Final = "is_scaled"
"""1 if such a loss is multiplied or divided by a number before the backward pass; else 0 (``<loss>/is_scaled``)."""
ACCUMULATION: Final = (BACKWARD_PASSES, IS_SUM, IS_SCALED)
"""The facts of how a loss becomes a gradient, captured at the second train step."""

GUESS_LEVEL, PERFECT_LEVEL = "guess_level", "perfect_level"
"""What a predictor without input and a perfect one reach in a booster's metric of its validation data, from the labels,
their weights and groups (``<set>-<metric>/guess_level``); absent where it is not known for the metric."""
GUESSES: Final = (GUESS_LEVEL, PERFECT_LEVEL)

GIVEN_SIZE: Final = "given_abs_max"
"""The largest absolute value among the data that a layer is given as they are (``<layer>/given_abs_max``)."""
IDENTICAL_UNITS: Final = "identical_units"
"""The number of layers whose units have equal weights, as have the weights that the next layer gives them
(``loss/identical_units``), and 1 for each of the first such layers (``<layer>+<next>/identical_units``)."""
CONSECUTIVE_LINEAR: Final = "consecutive_linear"
"""The number of pairs of linear or convolution layers without anything in between (``loss/consecutive_linear``), and 1
for each of the first pairs (``<first>+<second>/consecutive_linear``)."""
HAS_MOVING_ADVANTAGE: Final = "has_moving_advantage"
"""1 if a loss multiplies log-probabilities by an error that has a gradient and is minimized itself
(``loss/has_moving_advantage``); else it is absent."""
IS_RATIO_ONE: Final = "is_ratio_one"
"""The number of ratios of new to old probabilities that are all exactly 1, and clipped, at the second step, if its
first update has moved the policy, and no model was called without gradients after it, but before it
(``loss/is_ratio_one``); else it is absent."""
ADDED_TO_ITSELF: Final = "added_to_itself"
"""How often a model adds the output of a layer, or what follows it, to itself (``<layer>/added_to_itself``)."""
