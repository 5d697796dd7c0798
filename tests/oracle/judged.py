"""What a rule says of a story, by the real way through store, reader and window."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from leadline.judge.judging import Judging
from leadline.rules.rule import Rule
from leadline.testing.runs import START_NS, Part, RunWriter

Judged = list[tuple[int, str]]
"""Step, and ``clear``, ``fired`` or ``undecided``; of a loop that judges too, the steps that it has an opinion on."""


def judged_by(rule: Rule, story: Sequence[Part]) -> Judged:
    """What the rule says at each step, by the real way through store, reader and window."""
    said: Judged = []

    class Spy(Rule, frozen=True):
        def needs(self):
            return rule.needs()

        def remember(self, memory, window):
            return rule.remember(memory, window)

        def evaluate(self, window):
            verdict = rule.evaluate(window)
            said.append((window.step, type(verdict).__name__.lower()))
            return verdict

    with tempfile.TemporaryDirectory() as folder:
        path = RunWriter(f"{folder}/run", batch_rows=3, segment_batches=2).write_all(story).end().path
        progress = Judging(path, [("spy", Spy())], started_ns=START_NS).advance(is_over=True)
        assert progress.rules["spy"]["error"] is None
    return said
