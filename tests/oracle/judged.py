"""Verdicts of rules on a scenario, through store, reader and window."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence

from leadline.judge.evaluator import Evaluator
from leadline.rules.rule import Rule
from leadline.testing.runs import START_NS, Part, RunWriter

Judged = list[tuple[int, str]]
"""Step and verdict (``clear``, ``fired``, ``undecided`` or ``notapplicable``).

Oracle loops list only the steps that they evaluate.
"""


def judged_by(rule: Rule, scenario: Sequence[Part]) -> Judged:
    """Return the verdict of a rule at each step, through store, reader and window."""
    return judged_together({"spy": rule}, scenario)["spy"]


def judged_together(rules: Mapping[str, Rule], scenario: Sequence[Part], *, batch_rows: int = 3) -> dict[str, Judged]:
    """Return the verdicts of several rules at each step, evaluated together."""
    results: dict[str, Judged] = {name: [] for name in rules}
    with tempfile.TemporaryDirectory() as folder:
        writer = RunWriter(f"{folder}/run", batch_rows=batch_rows, segment_batches=2 if batch_rows < 10 else 1000)
        path = writer.write_all(scenario).end().path
        spies = [(name, recording(rule, results[name])) for name, rule in rules.items()]
        progress = Evaluator(path, spies, started_ns=START_NS).advance(is_over=True)
        assert {state["error"] for state in progress.rules.values()} == {None}
    return results


def recording(rule: Rule, results: Judged) -> Rule:
    """Return a rule with the same verdicts that records them."""

    class Spy(Rule, frozen=True):
        def needs(self):
            return rule.needs()

        def remember(self, memory, window):
            return rule.remember(memory, window)

        def evaluate(self, window):
            verdict = rule.evaluate(window)
            results.append((window.global_step, type(verdict).__name__.lower()))
            return verdict

    return Spy()
