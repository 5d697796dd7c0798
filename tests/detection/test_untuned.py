"""The default rules find no problem in healthy trainings that they were not tuned for, and let them run to their end.

A sample: ``python tests/detection/untuned.py FOLDER`` runs all of them, also on a busy machine.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from untuned import TRAININGS, has_learned, run

SAMPLE = (
    "torch/cross_validation",
    "torch/group_relative_policy",
    "torch/lora_after_pretraining",
    "torch/token_weighted_accumulation",
    "jax/folds_with_one_step",
    "trees/continued",
)


def test_every_training_says_what_it_is_and_whether_it_learned() -> None:
    assert len(TRAININGS) >= 100
    for path in TRAININGS.values():
        text = path.read_text()
        compile(text, str(path), "exec")
        assert re.match('"""[^"]+"""\n', text)
        last = text.splitlines()[-1]
        assert re.search(r"\b(fell|rose) from \{", last) or path.parent.name == "trainers"  # what they share says it


@pytest.mark.parametrize(
    ("output", "learned"),
    [
        ("loss fell from 2 to 1.7", True),
        ("loss fell from 2 to 1.9", False),
        ("loss fell from 0.5 to -1", True),
        ("loss fell from 1 to nan", False),
        ("loss fell from 2 to 1\nreward rose from -5 to -6", False),
        ("return rose from -5 to -2", True),
        ("", False),
    ],
)
def test_the_last_line_tells_whether_a_training_learned(output: str, learned: bool) -> None:
    assert has_learned(output) is learned


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_healthy_trainings_run_to_their_end(name: str, tmp_path: Path) -> None:
    outcome = run(name, tmp_path, steps=100)
    assert {rule: told.findings for rule, told in outcome.problems.items()} == {}
    assert outcome.status == 0, outcome.tail
    assert outcome.has_learned
