"""The advice about mistakes in what a loss call is given."""

from __future__ import annotations

from typing import Final

from leadline.rules import Advice

SOFTMAX_OF_ONE: Final = Advice(
    "sigmoid with {bce}, or {bce_with_logits} without an activation; softmax needs one unit for each class, along the "
    "dimension that it is taken over; usually two classes were meant to share one unit"
)
SWAPPED: Final = Advice("{loss_call}, in this order; usually they were written as for another library")
BROADCAST: Final = Advice(
    "{equal_shapes}, so that both have the same shape; usually the model's last layer has one unit, and the labels "
    "have no dimension for it"
)
REPEATED_LABELS: Final = Advice(
    "a Flatten, a pooling or {last_step_of_sequence} before the last layer, so that predictions have the shape of the "
    "labels; usually a layer that removes a dimension was left out"
)
DOUBLE_ACTIVATION: Final = Advice(
    "removing the {inner}: {last} takes the output of the last layer as it is; usually every layer was given an "
    "activation, the last one included",
    "inner",
    "last",
)
NO_SIGMOID: Final = Advice(
    "{bce_with_logits} on the output of the last layer, or a sigmoid behind the last layer; usually the sigmoid was "
    "left out, and clamping to [0, 1] takes the gradient of everything beyond"
)
NO_SOFTMAX: Final = Advice(
    "{cross_entropy_of_logits}, or a softmax behind the last layer; usually the softmax was left out, and clamping to "
    "[0, 1] takes the gradient of everything beyond"
)
NO_LOGARITHM: Final = Advice(
    "log_softmax behind the last layer; usually the logarithm is missing, and the loss falls below 0"
)
NLL_WITHOUT_LOGARITHM: Final = Advice(
    "{cross_entropy} on the output of the last layer, or log_softmax behind the last layer; usually the logarithm is "
    "missing, and the loss falls below 0"
)
NEGATED: Final = Advice(
    "{loss} as it is, without the minus; usually a likelihood or a reward was meant, which are to be maximized, while "
    "a loss is to be minimized",
    "loss",
)
RATE: Final = Advice(
    "{poisson_of_rates}, or the output of the last layer as it is; usually the rate was made positive although the "
    "loss takes its logarithm by default"
)
SIGMOID_LIKELIHOOD: Final = Advice(
    "softmax in place of sigmoid, or binary cross entropy; usually its term (1 - y) log(1 - p) is missing"
)
SOFTMAX_OVER_BATCH: Final = Advice(
    "{softmax_over_classes} where the classes come last; usually {axis} is 0, or was not given"
)
LABELS_OF_BINARY: Final = Advice(
    "labels from 0 to 1; usually the labels are {class_indices}, -1 and 1 ((labels + 1) / 2), or pixels that need a "
    "division by 255"
)
LABELS_OF_LOGARITHM: Final = Advice(
    "the squared error, or labels that are moved above 0; usually the labels were standardized, or are differences"
)
LABELS_OF_CLASSES: Final = Advice(
    "softmax of the labels, or {log_labels}; usually the labels are outputs of another model"
)
LABELS_OF_MARGIN: Final = Advice(
    "2 * labels - 1, or {bce_with_logits}; usually the labels are as other losses take them"
)
LABELS_OUT_OF_REACH: Final = Advice(
    "removing the {name} behind the last layer, or scaling the labels to its range; usually a regression ends with a "
    "layer without an activation",
    "name",
)
TWO_COLUMNS: Final = Advice(
    "cross entropy on the two units, or one unit with the label of the second class; usually labels were made one-hot "
    "as for cross entropy"
)
SEVERAL_CLASSES: Final = Advice(
    "{bce_with_logits} on the output of the last layer: one independent decision for each class; usually a loss for "
    "one class per sample was kept"
)
BLANK: Final = Advice(
    "labels that leave out the number of the blank (from 1 on, where it is 0), and lengths without padding; usually "
    "the classes are numbered from 0, or padding counts as labels"
)
MOVING_LABELS: Final = Advice(
    "{cut} behind the output that the labels are computed from: the prediction is to move towards them, and not they "
    "towards the prediction"
)
SHIFTED_TWICE: Final = Advice(
    "the tokens of the input as labels (labels=input_ids), since the model shifts them itself, or a loss that does not "
    "shift; usually the data set has shifted them, and the model does so again"
)
DROPOUT: Final = Advice(
    "dropout before the last layer instead of behind it; usually every layer was given one, the last one included"
)
NOT_LOGITS: Final = {
    alternative: Advice(
        f"removing the {{given}} behind the last layer{alternative}; usually the model ends with an activation that "
        "the loss brings itself",
        "given",
    )
    for alternative in ("", ", or {nll_of_log_softmax}", ", or {bce_in_place_of_logits}")
}
"""By the alternative, which depends on the loss and the activation."""
