"""The rule unused_parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from leadline.records.names import gradient_name
from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more

if TYPE_CHECKING:
    from leadline.reader.window import Window


@dataclass(slots=True)
class _Life:
    """What is known of a parameter since it was first captured."""

    first_step: int
    checksum: float
    is_updated: bool = False
    """Whether an optimizer holds it and it requires a gradient."""
    is_used: bool = False
    """Whether it ever had a gradient, or changed."""


class UnusedParameter(Rule, frozen=True, kw_only=True):
    """Fires when a parameter that an optimizer holds never gets a gradient.

    Why it matters:
        A layer that the loss does not depend on stays as it was initialized, takes memory in model, optimizer and
        checkpoint, and says that the forward pass is not what was meant; under DistributedDataParallel it is an error
        or a search through the graph at every step.
    How it decides:
        A parameter requires a gradient and is in an optimizer; ``steps`` steps and more after it was first captured it
        had a gradient at no capture, and its bits (their checksum) are those of the first. The second is what sees
        gradients that came between captures.
    Not a number:
        A gradient of NaN is a gradient.
    Blind spots:
        A parameter that had a gradient only between captures, and one of zero, looks unused. Experts or branches that
        are first taken late are named until they are. A gradient that is there but zero is for ``all_zero``.
    Args:
        steps: Steps that must have passed since the first capture, >= 1.
    Source:
        Ours; ``find_unused_parameters`` of ``torch.nn.parallel.DistributedDataParallel``.
    """

    steps: Annotated[int, msgspec.Meta(ge=1)] = 50

    def needs(self) -> Needs:
        return Needs(
            (
                TensorNeed("weights", statistics=("checksum", "update_ratio"), modes=("train",)),
                TensorNeed("biases", statistics=("checksum", "update_ratio"), modes=("train",)),
                TensorNeed("gradients", statistics=("abs_max",), modes=("train",)),
            )
        )

    def remember(self, memory: Any, window: Window) -> dict[tuple[str, str], _Life]:
        lives: dict[tuple[str, str], _Life] = memory or {}
        gradients = {(each.worker, each.tensor) for each in window.readings("abs_max")}
        updated = {(each.worker, each.tensor) for each in window.readings("update_ratio")}
        for each in window.readings("checksum"):
            key = (each.worker, each.tensor)
            life = lives.setdefault(key, _Life(each.mode_step, each.value))
            life.is_updated |= key in updated
            life.is_used |= (each.worker, gradient_name(each.tensor)) in gradients or each.value != life.checksum
        return lives

    def evaluate(self, window: Window) -> Verdict:
        sums = window.readings("checksum")
        lives = [(each, window.memory[each.worker, each.tensor]) for each in sums]
        held = [(each, life) for each, life in lives if life.is_updated]
        unused = [each for each, life in held if not life.is_used and each.mode_step - life.first_step >= self.steps]
        if unused:
            first = unused[0]
            tensors = tuple(dict.fromkeys(each.tensor for each in unused))
            return Fired(
                f"{first.tensor}{and_more(len(tensors) - 1, 'parameter')}: never a gradient up to step "
                f"{first.mode_step}, though an optimizer holds it",
                tensors=tensors,
                evidence={
                    "parameters": len(tensors),
                    "elements": sum(each.elements for each in unused),
                    "first_step": window.memory[first.worker, first.tensor].first_step,
                    "steps": self.steps,
                },
                suggestion="a look whether forward() calls this layer, or requires_grad_(False) if it is not meant to; "
                "usually a layer is made and not called, or its output is detached",
                worker=first.worker,
            )
        if not any(life.is_used or each.mode_step - life.first_step >= self.steps for each, life in held):
            return Undecided(f"no parameter of an optimizer was captured for {self.steps} steps")
        return Undecided("part of the parameters at this step was lost") if window.is_thinned else Clear()
