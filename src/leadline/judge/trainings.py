"""What a rule has found of the trainings of a run, of which each is judged for itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Final

from leadline.records.json_object import JsonObject
from leadline.records.names import BEST_EVALUATION, POSSIBLE_CAUSES
from leadline.records.verdict import VerdictTally

_NUMBER: Final = re.compile(r"\d[\d.,e+-]*")


class Trainings:
    """The trainings of a run as one rule has seen them, one after another.

    A worker may train several models, or one in several stages; the series of each start over. Without an event that
    says so, the run is one training.

    Attributes:
        begins: The train step at which the latest training of each worker began, if that is not its first.
    """

    def __init__(self) -> None:
        self.begins: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._ended = 0
        self._clear = 0
        self._suspected = ""
        self._undecided = VerdictTally()
        """Of the ended trainings that were not decided, the one that had the most observations."""
        self._remarks: list[tuple[int, str]] = []
        self._causes: set[str] = set()
        """Those of the remarks that are possible causes."""

    @property
    def count(self) -> int:
        """The number of trainings, from 1."""
        return self._ended + 1

    def number(self, worker: str | None) -> int:
        """Return the number of the current training of a worker, from 1; None: of the worker with the most of them."""
        return self._numbers.get(worker, 1) if worker is not None else max(self._numbers.values(), default=1)

    def where(self, worker: str | None) -> str:
        """Return in words which training of a worker is the current one; empty: its first."""
        number = self.number(worker)
        if number == 1:
            return ""
        begins = [step for name, step in self.begins.items() if worker in (name, None) and self.number(name) == number]
        return f"training {number:,}, which began at step {min(begins):,}"

    def begin(self, workers: Collection[str], step: int, tally: VerdictTally, least: int, product: Any) -> None:
        """End the current training, and begin another one.

        Args:
            workers: Those that begin it.
            step: Its first train step.
            tally: The verdicts on the one that ends.
            least: The observations that the rule must have made to be clear.
            product: What the rule has collected of the one that ends.
        """
        verdict, why = tally.result(least)
        self._clear += verdict == "clear"
        if tally.is_suspected:
            self._suspected = f"training {self.count:,}: {why}"
        elif verdict == "undecided" and tally.observations >= self._undecided.observations:
            self._undecided = tally
        self._remarks += [(self.count, str(remark)) for remark in product.get("remarks", ())]
        self._causes.update(product.get(POSSIBLE_CAUSES, ()))
        self._ended += 1
        for worker in workers:
            self._numbers[worker] = self.number(worker) + 1
            self.begins[worker] = step

    def result(self, tally: VerdictTally, least: int, unseen: str) -> tuple[str, str]:
        """Return the verdict on all trainings without a finding, and the reason, as ``VerdictTally.result`` does.

        A rule is clear that was clear in one of them, unless another one ended with the suspicion of a problem.
        """
        verdict, why = tally.result(least, unseen)
        if not self._ended or tally.is_suspected:
            return verdict, why
        if self._suspected:
            return "undecided", self._suspected
        if verdict == "clear" or self._clear:
            return "clear", ""
        if self._undecided.observations > tally.observations:
            return self._undecided.result(least, unseen)
        return verdict, why

    def product(self, product: JsonObject) -> JsonObject:
        """Return what the rule has collected of the current training, with the remarks on those before it.

        Of several trainings, the best evaluation says that it is that of the current one: it does not compare them.
        """
        if (training := self.where(None)) and (best := product.get(BEST_EVALUATION)):
            product = {**product, BEST_EVALUATION: f"in {training}, {best}"}
        if not self._remarks:
            return product
        remarks = [*self._remarks, *((self.count, str(remark)) for remark in product.get("remarks", ()))]
        certain = self._causes.union(product.get(POSSIBLE_CAUSES, ()))
        causes = [(number, remark) for number, remark in remarks if remark in certain]
        merged = {"remarks": remarks, **({POSSIBLE_CAUSES: causes} if causes else {})}
        return {**product, **{key: _merged(found, self.count) for key, found in merged.items()}}


def _merged(remarks: Sequence[tuple[int, str]], count: int) -> list[str]:
    """Return remarks with their trainings; those that differ in numbers only are one, the latest.

    A remark is kept if it holds for the last training, or for half of them: a search makes many short ones on purpose.
    """
    groups: dict[str, list[tuple[int, str]]] = {}
    for number, remark in remarks:
        groups.setdefault(_NUMBER.sub("", remark), []).append((number, remark))
    return [
        f"{_in_words([number for number, _ in group], count)}: {group[-1][1]}"
        for group in groups.values()
        if group[-1][0] == count or 2 * len(group) >= count
    ]


def _in_words(numbers: Sequence[int], count: int) -> str:
    """Return ``in training 2 of 5``, or ``in 3 of 5 trainings (the numbers are those of training 4)``."""
    if len(numbers) == 1:
        return f"in training {numbers[0]:,} of {count:,}"
    return f"in {len(numbers):,} of {count:,} trainings (the numbers are those of training {numbers[-1]:,})"
