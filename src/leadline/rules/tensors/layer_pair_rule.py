"""Base class of the rules on pairs of layers that are found in the graph of a backward pass."""

from __future__ import annotations

from typing import ClassVar

from leadline.records.names import CHECKS
from leadline.rules import Clear, Fired, Needs, Rule, TensorNeed, TensorReading, Undecided, Verdict, Window


class LayerPairRule(Rule, frozen=True, kw_only=True):
    """A rule that fires for each pair of layers with a fact, which is recorded as ``<one>+<other>/<fact>``.

    Attributes:
        fact: The name of the fact; ``loss/<fact>`` counts all such pairs, also those that are not named.
        first_steps: The steps at which it is looked at.
    """

    fact: ClassVar[str]
    first_steps: ClassVar[int] = 1

    def needs(self) -> Needs:
        need = TensorNeed(CHECKS, regex=f"/{self.fact}$", statistics=("value",), modes=("train",), end=self.first_steps)
        return Needs((need,))

    def evaluate(self, window: Window) -> Verdict:
        found = window.readings("value")
        pairs = [reading for reading in found if reading.tensor != f"loss/{self.fact}"]
        counts = [reading for reading in found if reading.tensor == f"loss/{self.fact}"]
        if not pairs:
            return Clear() if counts else Undecided("no backward pass was traced")
        one, _, other = pairs[0].tensor.removesuffix(f"/{self.fact}").partition("+")
        return self.finding(pairs, one, other, max([len(pairs), *(int(reading.value) for reading in counts)]))

    def finding(self, pairs: list[TensorReading], one: str, other: str, count: int) -> Fired:
        """Return the finding about the first pair.

        Args:
            one, other: The names of its layers.
            count: The number of all pairs.
        """
        raise NotImplementedError
