"""The rule unused_parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from leadline.records.names import gradient_name
from leadline.rules import Advice, Needs, Rule, TensorNeed, Undecided, Verdict, Window
from leadline.rules.bounds import PositiveInt
from leadline.rules.messages import and_more, clear_if_complete, fired
from leadline.rules.streak import Streak

_ADVICE: Final = Advice(
    "checking whether {forward} calls this layer, or {freeze} if it is not meant to; usually a layer is created but "
    "not called, its output is detached, or a router never chooses it"
)


@dataclass(slots=True)
class _Usage:
    """The use of a parameter since it was first captured."""

    streak: Streak
    """The captures of it."""
    checksum: float
    is_updated: bool = False
    """Whether an optimizer holds it and it requires a gradient."""
    is_used: bool = False
    """Whether it ever had a gradient or changed."""


class UnusedParameter(Rule, frozen=True, kw_only=True):
    """Fires when a parameter that an optimizer holds never gets a gradient.

    Why it matters:
        A layer that the loss does not depend on keeps its initial weights, takes memory in model, optimizer and
        checkpoint, and shows that the forward pass is not as intended; under DistributedDataParallel it is an error
        or costs a search through the graph at every step.
    How it decides:
        Fires if a parameter requires a gradient and is in an optimizer, and ``steps`` or more steps after its first
        capture it had no gradient at any capture, and its bits (their checksum) are those of the first capture. The
        checksum detects gradients between captures. Undecided while a parameter had no gradient for fewer steps.
    Not a number:
        A gradient of NaN is a gradient.
    Blind spots:
        A parameter whose gradients occurred only between captures, and were zero, looks unused. Experts or branches
        that are first used late are reported until then. An existing gradient of zero is reported by ``all_zero``.
    Args:
        steps: Steps that must have passed since the first capture, >= 1.
    Source:
        Ours; ``find_unused_parameters`` of ``torch.nn.parallel.DistributedDataParallel``.
    """

    steps: PositiveInt = 50

    def needs(self) -> Needs:
        return Needs(
            (
                TensorNeed("weights", statistics=("checksum", "update_ratio"), modes=("train",)),
                TensorNeed("biases", statistics=("checksum", "update_ratio"), modes=("train",), is_optional=True),
                TensorNeed("gradients", statistics=("abs_max",), modes=("train",)),
            )
        )

    def remember(self, memory: Any, window: Window) -> dict[tuple[str, str], _Usage]:
        usages: dict[tuple[str, str], _Usage] = memory or {}
        gradients = {(reading.worker, reading.tensor) for reading in window.readings("abs_max")}
        updated = {(reading.worker, reading.tensor) for reading in window.readings("update_ratio")}
        for reading in window.readings("checksum"):
            key = (reading.worker, reading.tensor)
            usage = usages.setdefault(key, _Usage(Streak.begin(reading.mode_step), reading.value))
            usage.streak.extend(reading.mode_step)
            usage.is_updated |= key in updated
            usage.is_used |= (
                reading.worker,
                gradient_name(reading.tensor),
            ) in gradients or reading.value != usage.checksum
        return usages

    def evaluate(self, window: Window) -> Verdict:
        sums = window.readings("checksum")
        usages = [(reading, window.memory[reading.worker, reading.tensor]) for reading in sums]
        held = [(reading, usage) for reading, usage in usages if usage.is_updated]
        unused = [
            reading
            for reading, usage in held
            if not usage.is_used and reading.mode_step - usage.streak.since >= self.steps
        ]
        if unused:
            first = unused[0]
            usage = window.memory[first.worker, first.tensor]
            count = len({reading.tensor for reading in unused})
            return fired(
                f"{first.tensor}{and_more(count - 1, 'parameter')}: no gradient {usage.streak.steps}, though "
                "an optimizer holds it",
                *unused,
                advice=_ADVICE,
                evidence={
                    "elements": sum(reading.elements for reading in unused),
                    "first_step": usage.streak.since,
                    "steps": self.steps,
                },
                count="parameters",
            )
        if not held:
            return Undecided("no parameter of an optimizer was captured at this step")
        suspects = [(reading, usage) for reading, usage in held if not usage.is_used]
        if suspects:
            steps = max(reading.mode_step - usage.streak.since for reading, usage in suspects)
            why = f"{suspects[0][0].tensor} had no gradient for {steps:,} of {self.steps:,} steps"
            return Undecided(why, stage="suspected")
        return clear_if_complete(window, "parameters")
