"""A finding counts for every tensor that it names, on all pages; only so many are shown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from leadline.judge import episodes
from leadline.judge.episodes import Episodes
from leadline.judge.judge import judge_run
from leadline.reader.run import Run
from leadline.reader.view import View
from leadline.records import finding as findings
from leadline.records.manifest import RuleSpec
from leadline.records.needs import TensorNeed
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired
from leadline.testing.runs import Capture, RunWriter
from leadline.testing.windows import points

NAMES = [f"gradient/blocks.{number}.weight" for number in range(30)]


def test_every_tensor_of_a_finding_has_it(tmp_path: Path, open_dashboard: Callable[..., TestClient]) -> None:
    broken = {name: {"abs_max": math.nan, "nonfinite_count": 1.0} for name in NAMES}
    infos = {name: TensorInfo(name, ("gradients",), (4, 4)) for name in NAMES}
    rules = [RuleSpec("exploding_tensor", "exploding_tensor")]
    writer = RunWriter(tmp_path / "story", rules=rules).write_all([Capture(0, broken, infos=infos)]).end()
    judge_run(writer.path, write=True)
    run = Run(str(tmp_path / "story"))
    (found,) = run.findings().to_pylist()
    assert set(found["tensors"]) == set(NAMES)
    client = open_dashboard(tmp_path)
    text = client.get("/runs/story/tensors", headers={"accept": "text/html"}).text
    assert re.findall(r'<td class="number" data-value="(\d+)"><b class="bad">', text) == ["1"] * len(NAMES)
    rules = client.get("/runs/story/rules", headers={"accept": "text/html"}).text
    assert len(re.findall(r'class="chip"', rules)) == findings.MAX_SHOWN_TENSORS
    assert "and 10 more" in rules
    for name in NAMES:
        page = client.get("/runs/story/tensors", params={"name": name}, headers={"accept": "text/html"}).text
        assert "exploding_tensor" in page


def test_a_rule_that_fires_again_and_again_names_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "MAX_NAMES", 70)
    view = View((TensorNeed("gradients", statistics=("abs_max",)),))
    kept = Episodes("again")
    counts = []
    for step in range(4):
        (point,) = points([Capture(step, {"gradient/a.weight": {"abs_max": 1.0}})], shapes={})
        window = view.select(point)
        assert window is not None
        (opened,) = kept.apply(Fired("again", tuple(NAMES)), window, None)
        kept.apply(Clear(), window, None)
        counts.append((len(opened["tensors"]), opened["tensor_count"]))
    assert counts == [(30, 30), (30, 30), (20, 30), (20, 30)]
