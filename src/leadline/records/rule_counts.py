"""The number of rules by state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leadline.records.describe import rule_state
from leadline.records.documents import SummarizedRule
from leadline.records.formatting import counted, number


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """The number of rules by state, without those that are not applicable."""

    fired: int = 0
    clear: int = 0
    undecided: int = 0
    """Those that are not decided yet included."""
    failed: int = 0
    advice: int = 0
    """Those that fired as advice; ``fired`` includes them."""

    @property
    def total(self) -> int:
        """The number of rules that apply to the run."""
        return self.fired + self.clear + self.undecided + self.failed

    @property
    def fired_words(self) -> str:
        """``fired``, ``fired as advice`` if all of them are advice, ``fired (1 as advice)`` if some are."""
        if not self.advice:
            return "fired"
        return "fired as advice" if self.advice == self.fired else f"fired ({number(self.advice)} as advice)"

    def words(self, *, with_fired: bool = False) -> str:
        """``3 rules fired (1 as advice), 12 clear, 1 undecided``, without ``with_fired`` ``12 rules clear, …``."""
        counts = {self.fired_words: self.fired if with_fired else 0, "clear": self.clear}
        counts |= {"undecided": self.undecided, "failed": self.failed}
        (state, count), *others = [(state, count) for state, count in counts.items() if count] or [("", 0)]
        first = [f"{counted(count, 'rule')} {state}"] if count else []
        return ", ".join([*first, *(f"{number(count)} {state}" for state, count in others)])


def count_rules(rules: Iterable[SummarizedRule]) -> RuleCounts:
    """Count rules by state."""
    found = list(rules)
    states = [rule_state(rule) for rule in found]
    advice = sum(state == "fired" and rule.severity == "advice" for state, rule in zip(states, found, strict=True))
    fired, clear, undecided, failed = (states.count(state) for state in ("fired", "clear", "undecided", "error"))
    return RuleCounts(fired, clear, undecided, failed, advice)
