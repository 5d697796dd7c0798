"""Findings are phrased in one place: the worst first, the others counted and listed."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import numpy as np

import leadline.rules
from leadline.analysis.advice import Advice
from leadline.reader.window import TensorArray
from leadline.records.verdict import Fired
from leadline.rules.messages import fired

ADVICE = Advice("{shuffle}; usually it is off")


def _found(tensor: str, worker: str) -> TensorArray:
    return TensorArray(worker, tensor, step=0, mode_step=0, load=lambda: np.zeros(1))


def test_the_others_are_counted_and_listed_behind_the_worst() -> None:
    worst, other = _found("w1", "rank1"), _found("w0", "rank0")
    verdict = fired("w1 is bad", worst, other, worst, advice=ADVICE, noun="layer", count="layers", then="; slowly")
    assert verdict == Fired(
        "w1 is bad, and 1 more layer; slowly",
        tensors=("w1", "w0"),
        evidence={"layers": 2},
        suggestion="shuffle=True in the DataLoader; usually it is off",
        worker="rank1",
    )


def test_a_finding_about_one_or_about_devices_counts_nothing() -> None:
    assert fired("w is bad", _found("w", "rank0"), advice=ADVICE, noun="layer").message == "w is bad"
    verdict = fired("gpu1 is hot", "gpu1", "gpu0", advice=ADVICE, evidence={"celsius": 99}, since_step=3)
    assert (verdict.message, verdict.tensors, verdict.worker) == ("gpu1 is hot", ("gpu1", "gpu0"), None)
    assert (verdict.evidence, verdict.since_step) == ({"celsius": 99}, 3)


def test_every_built_in_rule_phrases_its_findings_with_it() -> None:
    folder = Path(inspect.getfile(leadline.rules)).parent
    calls = {
        (file.stem, node.func.id)
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Fired", "fired")
    }
    assert {stem for stem, name in calls if name == "Fired"} == {"messages"}
    assert len(calls) > 50
