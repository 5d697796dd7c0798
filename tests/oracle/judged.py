"""What a rule says of a story, by the real way through store, reader and window."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence

from leadline.judge.evaluator import Evaluator
from leadline.rules.rule import Rule
from leadline.testing.runs import START_NS, Part, RunWriter

Judged = list[tuple[int, str]]
"""Step, and ``clear``, ``fired`` or ``undecided``; of a loop that judges too, the steps that it has an opinion on."""


def judged_by(rule: Rule, story: Sequence[Part]) -> Judged:
    """What the rule says at each step, by the real way through store, reader and window."""
    return judged_together({"spy": rule}, story)["spy"]


def judged_together(rules: Mapping[str, Rule], story: Sequence[Part], *, batch_rows: int = 3) -> dict[str, Judged]:
    """The same, of several rules that are judged in one go."""
    said: dict[str, Judged] = {name: [] for name in rules}
    with tempfile.TemporaryDirectory() as folder:
        writer = RunWriter(f"{folder}/run", batch_rows=batch_rows, segment_batches=2 if batch_rows < 10 else 1000)
        path = writer.write_all(story).end().path
        spies = [(name, spy_on(rule, said[name])) for name, rule in rules.items()]
        progress = Evaluator(path, spies, started_ns=START_NS).advance(is_over=True)
        assert {state["error"] for state in progress.rules.values()} == {None}
    return said


def spy_on(rule: Rule, said: Judged) -> Rule:
    """A rule that says the same and notes it."""

    class Spy(Rule, frozen=True):
        def needs(self):
            return rule.needs()

        def remember(self, memory, window):
            return rule.remember(memory, window)

        def evaluate(self, window):
            verdict = rule.evaluate(window)
            said.append((window.step, type(verdict).__name__.lower()))
            return verdict

    return Spy()
