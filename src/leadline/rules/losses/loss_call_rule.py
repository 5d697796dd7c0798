"""Base class of the rules on what a loss call is given at the first two train steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from leadline.records.loss_facts import FACT_STEPS
from leadline.rules import Clear, Needs, NotApplicable, Rule, Verdict, Window
from leadline.rules.losses.given_loss import NEEDS, GivenLoss, given_losses
from leadline.rules.losses.loss_mistakes import Mistake
from leadline.rules.messages import and_more, fired, suspected


class LossCallRule(Rule, frozen=True, kw_only=True):
    """A rule on mistakes in what a loss call is given; one that a batch may show by chance must be made twice."""

    def mistakes(self, losses: list[GivenLoss]) -> Iterable[tuple[GivenLoss, Mistake]]:
        """Return the losses of a step that are given something wrong, with the mistake."""
        raise NotImplementedError

    @property
    def least_observations(self) -> int:
        return FACT_STEPS

    def needs(self) -> Needs:
        return NEEDS

    def remember(self, memory: Any, window: Window) -> dict[tuple[str, str], tuple[str, int]]:
        """Return the name of each call's latest mistake, and at how many steps running it was made."""
        before: dict[tuple[str, str], tuple[str, int]] = memory or {}
        known: dict[tuple[str, str], tuple[str, int]] = {}
        for loss, mistake in self.mistakes(given_losses(window)):
            name, count = before.get((loss.worker, loss.name), ("", 0))
            known[loss.worker, loss.name] = (mistake.name, count + 1 if name == mistake.name else 1)
        return known

    def evaluate(self, window: Window) -> Verdict:
        losses = given_losses(window)
        if not losses:
            return NotApplicable("no loss whose input the graph shows")
        mistakes = list(self.mistakes(losses))
        found = [
            (loss, mistake)
            for loss, mistake in mistakes
            if mistake.is_certain or window.memory[loss.worker, loss.name][1] >= FACT_STEPS
        ]
        if not found:
            return suspected(1, FACT_STEPS, "steps") if mistakes else Clear()
        loss, mistake = min(found, key=lambda finding: not finding[1].is_certain)
        others = len({given.name for given, _ in found}) - 1
        place = f"{loss.name}: " if len(losses) > 1 else ""
        return fired(
            f"{place}{mistake.what}{and_more(others, 'loss call')}",
            *(given.tensor(wrong.fact) for given, wrong in [(loss, mistake), *found]),
            advice=mistake.suggestion,
            evidence={"mistake": mistake.name, **loss.numbers},
            worker=loss.worker,
        )
