"""The rule loss_input."""

from __future__ import annotations

from typing import Any, ClassVar

from leadline.records import loss_facts as facts
from leadline.records.loss_facts import FACT_STEPS
from leadline.rules import Clear, Needs, NotApplicable, Rule, Verdict, Window
from leadline.rules.losses.given_loss import NEEDS, GivenLoss, given_losses
from leadline.rules.losses.loss_mistakes import Mistake, find_mistake
from leadline.rules.messages import and_more, fired, suspected


class LossInput(Rule, frozen=True, kw_only=True):
    """Fires when the inputs of a loss do not fit it, so that the model cannot learn as intended.

    Why it matters:
        Most of these mistakes raise no error: the loss is computed, gradients flow, and the training is slow, stays at
        the level of guessing, or optimizes something else. Softmax over one unit is always 1; a second softmax keeps
        the loss far above 0; a (N, 1) prediction and a (N,) label are compared in all N x N pairs.
    How it decides:
        At the first two train steps each backward pass is traced back from the loss to the last layer: loss calls of
        PyTorch and losses written by hand, the last two activations, dropout, shapes; beside that a sample of labels
        and log-probabilities is read. Fires on: softmax over one unit; softmax, sigmoid, tanh or ReLU before a loss
        that takes logits; two such activations with no layer in between; no activation, tanh, ReLU or a logarithm
        before binary or categorical cross entropy, which takes probabilities; exp, softplus or ReLU before a Poisson
        likelihood that takes the logarithm of the rate; the negative of a single loss call; anything but
        log-probabilities before a negative log-likelihood, KL divergence or CTC (``exp`` of a row must add up to 1
        within 1e-2); softmax over the batch; predictions and labels broadcast to N x N, or swapped; a label compared
        with several outputs of its sample; a sigmoid before a categorical cross entropy; labels beyond [0, 1] in
        binary cross entropy, or below 0 as probabilities; labels of 0 and 1 in the soft margin loss, or below 0 in a
        squared logarithmic error; more than 10 % of the labels of a regression loss beyond the range of the
        activation; more than 10 % of samples with several classes under a softmax; binary cross entropy over two one-
        hot columns; the log-likelihood of sigmoid outputs of one true class; dropout behind the last layer. What
        depends on the values of a batch must be found at both steps; everything else at one.
    Not a number:
        A fact that is NaN is not compared, and shows nothing.
    Blind spots:
        An activation whose output is scaled or shifted before the loss is taken as intended, as is everything that a
        pooling, a sum or an operation without a known meaning separates from the loss. Behind ``torch.compile`` the
        graph ends at the compiled part: activations in it are not seen. At most 8 loss calls of a step are looked at,
        and 96 nodes of each expression. A loss that changes after the second step is not looked at again.
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

    @property
    def least_observations(self) -> int:
        return FACT_STEPS

    def needs(self) -> Needs:
        return NEEDS

    def remember(self, memory: Any, window: Window) -> dict[tuple[str, str], tuple[str, int]]:
        """Keep the latest mistake of each loss call, and at how many steps running it was found."""
        return remember_mistakes(memory, {key: mistake for key, (_, mistake) in _mistakes(window).items()})

    def evaluate(self, window: Window) -> Verdict:
        losses = given_losses(window)
        if not losses:
            return NotApplicable("no loss whose input the graph shows")
        return verdict_on(list(_mistakes(window).values()), window)


def remember_mistakes(memory: Any, mistakes: dict[tuple[str, str], Mistake]) -> dict[tuple[str, str], tuple[str, int]]:
    """Return the name of each call's latest mistake, and at how many steps running it was found."""
    before: dict[tuple[str, str], tuple[str, int]] = memory or {}
    counts = {key: before[key][1] if before.get(key, ("", 0))[0] == each.name else 0 for key, each in mistakes.items()}
    return {key: (mistake.name, counts[key] + 1) for key, mistake in mistakes.items()}


def verdict_on(mistakes: list[tuple[GivenLoss, Mistake]], window: Window) -> Verdict:
    """Return the verdict on the mistakes in what the loss calls of a step are given."""
    found = [
        (loss, mistake)
        for loss, mistake in mistakes
        if mistake.is_certain or window.memory[loss.worker, loss.name][1] >= FACT_STEPS
    ]
    if not found:
        return suspected(1, FACT_STEPS, "steps") if mistakes else Clear()
    loss, mistake = min(found, key=lambda each: not each[1].is_certain)
    others = len({each.name for each, _ in found}) - 1
    place = f"{loss.name}: " if len(given_losses(window)) > 1 else ""
    return fired(
        f"{place}{mistake.what}{and_more(others, 'loss call')}",
        *(each.tensor(other.fact) for each, other in [(loss, mistake), *found]),
        advice=mistake.suggestion,
        evidence={"mistake": mistake.name, **loss.numbers},
        worker=loss.worker,
    )


def _mistakes(window: Window) -> dict[tuple[str, str], tuple[GivenLoss, Mistake]]:
    losses = given_losses(window)
    is_adversarial = not all(loss.has(facts.IS_NEGATED) for loss in losses)  # the other player minimizes its loss
    found = ((loss, find_mistake(loss)) for loss in losses)
    return {
        (loss.worker, loss.name): (loss, mistake)
        for loss, mistake in found
        if mistake is not None and not (is_adversarial and mistake.fact == facts.IS_NEGATED)
    }
