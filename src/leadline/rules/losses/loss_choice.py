"""The rule loss_choice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from leadline.records import loss_facts as facts
from leadline.records.loss_facts import REGRESSION
from leadline.rules import Severity
from leadline.rules.losses.given_loss import GivenLoss
from leadline.rules.losses.loss_call_rule import LossCallRule
from leadline.rules.losses.loss_mistakes import Mistake
from leadline.rules.losses.unsuitable_losses import REGRESSION_OF_CLASSES, find_unfitting_loss


class LossChoice(LossCallRule, frozen=True, kw_only=True):
    """Fires when another loss, metric or label would suit the task better: a regression loss on labels of 0 and 1.

    Why it matters:
        A classifier with a squared or absolute error learns, but slowly: the gradient vanishes where the model is
        confidently wrong, and the absolute error is minimal at the more frequent class.
    How it decides:
        Fires if at the first two train steps the labels of a squared, absolute or smooth absolute error contain 0 and 1
        and nothing else, with one number or one 1 for each sample, and no other error beside it is of numbers, as in a
        loss of boxes and whether there is one; or if binary cross entropy is given a softmax over several classes and
        labels with one 1; or if an accuracy is computed beside a regression loss whose labels are not whole numbers; or
        if at least 99 % of the labels of a negative log-likelihood are the token that the model is given at the same
        position of a sequence, and at most 90 % that at the next position (PyTorch, where the graph shows both the
        embedding and the labels): a model that is to predict the next token repeats its input. Of such sequences it
        fires, too, if more than 10 % of the labels that the loss counts are where a sequence begins or ends with
        padding (the ``padding_idx`` of the embedding; a loss that is masked afterwards is not judged), or if more than
        90 % of at least 4 sequences begin with the same token twice, and another one behind it. It fires if the class
        weights of such a loss are 1.4 times as large, as a mean over at least 16 labels, as over the classes among them
        (PyTorch); and if N samples, at least 4, are given N x N outputs, products of the samples with N others, and one
        label for all; or products of the samples with themselves, of which the one with itself is the largest of each
        and never its label; or products whose labels are 0 to N - 1 in this order, where for more than 10 % of the
        samples another output is the same as the right one, to the bit, for every sample; and if the mean of a cross
        entropy over several labels is multiplied by a function of its own exponential, as ``(1 - exp(-loss)) ** 2``
        (PyTorch): a focal loss does that for each sample.
    Not a number:
        Labels that contain NaN are not just 0 and 1.
    Blind spots:
        Intended uses fire as well, except the least-squares loss of GANs, whose batches have one label each: so does an
        autoencoder of tokens. Labels of losses written by hand are known only where the model ends with an activation.
        See also ``loss_input``.
    Source:
        Ours; Golik, Doetsch and Ney, "Cross-entropy vs. squared error training" (2013).
    """

    severity: ClassVar[Severity] = "advice"

    def mistakes(self, losses: list[GivenLoss]) -> Iterator[tuple[GivenLoss, Mistake]]:
        are_errors = [loss.kind in REGRESSION and loss.numbers.get(facts.ARE_LABELS_BINARY) == 0.0 for loss in losses]
        for loss in losses:
            mistake = find_unfitting_loss(loss)
            is_part = mistake is not None and mistake.name == REGRESSION_OF_CLASSES and any(are_errors)
            if mistake is not None and not is_part:
                yield loss, mistake
