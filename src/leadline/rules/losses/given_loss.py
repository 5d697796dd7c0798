"""What loss calls were given at a step, as rules read it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeVar

from leadline.records import loss_facts as facts
from leadline.records.loss_facts import FACT_STEPS, FACTS, LOSS_NAMES, Activation, LossKind
from leadline.records.names import CHECKS
from leadline.rules import Needs, TensorNeed, Window

Code = TypeVar("Code", bound=IntEnum)

_FACT: Final = re.compile(rf"(.+)/({'|'.join(FACTS)})")
NEEDS: Final = Needs(
    (TensorNeed(CHECKS, regex=rf"/({'|'.join(FACTS)})$", statistics=("value",), modes=("train",), end=FACT_STEPS),)
)


@dataclass(frozen=True, slots=True)
class GivenLoss:
    """The facts about one loss call at one step; see ``leadline.records.loss_facts``."""

    name: str
    worker: str
    numbers: Mapping[str, float]

    @property
    def kind(self) -> LossKind:
        return _member(LossKind, self.numbers.get(facts.KIND))

    @property
    def activation(self) -> Activation:
        return _member(Activation, self.numbers.get(facts.ACTIVATION))

    @property
    def inner_activation(self) -> Activation:
        return _member(Activation, self.numbers.get(facts.INNER_ACTIVATION))

    @property
    def loss(self) -> str:
        """What messages call the loss."""
        return LOSS_NAMES[self.kind]

    def number(self, fact: str, default: float = 0.0) -> float:
        """Return a fact, or a default where it is not known."""
        return self.numbers.get(fact, default)

    def has(self, fact: str) -> bool:
        """Return whether a fact that is 1 or 0 is 1."""
        return self.numbers.get(fact) == 1.0

    def is_known(self, fact: str) -> bool:
        """Return whether a fact is known."""
        return fact in self.numbers

    def tensor(self, fact: str) -> str:
        """Return the name under which a fact is stored."""
        return f"{self.name}/{fact}"


def given_losses(window: Window) -> list[GivenLoss]:
    """Return the loss calls of a step, in the order of their names; calls of an unknown kind are left out."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for reading in window.readings("value"):
        match = _FACT.fullmatch(reading.tensor)
        if match:
            found.setdefault((reading.worker, match[1]), {})[match[2]] = reading.value
    losses = [GivenLoss(name, worker, numbers) for (worker, name), numbers in sorted(found.items())]
    return [loss for loss in losses if loss.kind is not LossKind.UNKNOWN]


def _member(codes: type[Code], code: float | None) -> Code:
    """Return the member of a code; that of 0 where it is not known, or not known here."""
    return codes(int(code)) if code is not None and code in list(codes) else codes(0)
