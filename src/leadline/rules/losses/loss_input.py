"""The rule loss_input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from leadline.records import loss_facts as facts
from leadline.rules.losses.given_loss import GivenLoss
from leadline.rules.losses.loss_call_rule import LossCallRule
from leadline.rules.losses.loss_mistakes import Mistake, find_mistake


class LossInput(LossCallRule, frozen=True, kw_only=True):
    """Fires when the inputs of a loss do not fit it, so that the model cannot learn as intended.

    Why it matters:
        Most of these mistakes raise no error: the loss is computed, gradients flow, and the training is slow, stays at
        the level of guessing, or optimizes something else. Softmax over one unit is always 1; a second softmax keeps
        the loss far above 0; a (N, 1) prediction and a (N,) label are compared in all N x N pairs.
    How it decides:
        At the first two train steps, and in PyTorch at two of each of the next seven trainings of the process, each
        backward pass is traced back from the loss to the last layer: loss calls of the framework (in JAX those of
        optax), in PyTorch also losses written by hand, the last two activations, dropout, shapes; in addition a sample
        of labels and log-probabilities is read. Fires on: softmax over one unit; softmax, sigmoid, tanh or ReLU before
        a loss that takes logits; two such activations with no layer in between; no activation, tanh, ReLU or a
        logarithm before binary or categorical cross entropy, which takes probabilities; exp, softplus or ReLU before a
        Poisson likelihood that takes the logarithm of the rate; the negative of a single loss call; anything but
        log-probabilities before a negative log-likelihood, KL divergence or CTC (``exp`` of a row must add up to 1
        within 1e-2); softmax over the batch; predictions and labels broadcast to N x N, or swapped; a label compared
        with several outputs of its sample; a sigmoid before a categorical cross entropy; labels beyond [0, 1] in binary
        cross entropy, or below 0 as probabilities; labels of 0 and 1 in the soft margin loss, or below 0 in a squared
        logarithmic error; more than 10 % of the labels of a regression loss beyond the range of the activation; more
        than 10 % of samples with several classes under a softmax; binary cross entropy over two one-hot columns; the
        log-likelihood of sigmoid outputs of one true class; a CTC label, within the length of its sequence, that is the
        blank; labels of a sequence of which at least 99 % are the token two positions after that of the input, and at
        most 90 % the next one (PyTorch); labels of a squared, absolute or Huber error that have a gradient, too, and
        are something plus a multiple of an output of the same parameters (PyTorch); dropout behind the last layer. What
        depends on the values of a batch must be found at both steps; everything else at one.
    Not a number:
        A fact that is NaN is not compared, and shows nothing.
    Blind spots:
        An activation whose output is scaled or shifted before the loss is taken as intended, as is everything that a
        pooling, a sum or an operation without a known meaning separates from the loss. Behind ``torch.compile`` the
        graph ends at the compiled part: activations in it are not seen. At most 8 loss calls of a step are looked at,
        and 96 nodes of each expression. Positions of labels are not known where the embedding is frozen, checkpointed
        or compiled, for inputs of (positions, samples), and of several losses in one sum. A loss that changes after the
        second step is not looked at again.
    Source:
        Ours; the documentation of the losses in ``torch.nn``.
    """

    explains: ClassVar[tuple[str, ...]] = (
        "loss_at_start",
        "diverging_loss",
        "loss_not_decreasing",
        "metric_not_improving",
        "no_gradient",
        "no_learning",
        "vanishing_gradient",
        "all_zero",
        "dead_relu",
        "saturated_activation",
        "output_collapse",
        "unchanged_tensor",
        "weight_update_ratio",
        "poor_weight_initialization",
        "exploding_gradient",
        "exploding_tensor",
        "nonfinite_origin",
        "loss_choice",
    )

    def mistakes(self, losses: list[GivenLoss]) -> Iterator[tuple[GivenLoss, Mistake]]:
        is_adversarial = not all(loss.has(facts.IS_NEGATED) for loss in losses)  # the other player minimizes its loss
        for loss in losses:
            mistake = find_mistake(loss)
            if mistake is not None and not (is_adversarial and mistake.fact == facts.IS_NEGATED):
                yield loss, mistake
