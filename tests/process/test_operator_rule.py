"""operator_time on a real job: same verdict live and when judged again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from launching import LEADLINE, PATIENCE, environment, rule, script, watched

RULE = "operator_time:share_threshold=0.0001,growth_threshold=1000"


@pytest.mark.slow
def test_a_real_window_gets_the_same_verdict_live_and_when_judged_again(tmp_path: Path) -> None:
    options = ["--no-default-rules", "--rule", RULE, "--profile", "detailed:at=5,for=3"]
    ended = watched(options, script("profiled.py"), "watched", "40", folder=tmp_path)
    found = rule(ended.show(), "operator_time")
    assert found["verdict"] == "fired", ended.err
    (finding,) = ended.run.findings().to_pylist()
    evidence = json.loads(finding["evidence"])
    dearest = ended.run.operators(("operator",), device="cpu").to_pylist()[0]
    assert (evidence["operator"], evidence["window"]) == (dearest["operator"], "detailed-5")
    steps = sum(
        step["end_ns"] - step["start_ns"]
        for path in Path(ended.run.path).glob("profiles/*/detailed-5/steps.json")
        for step in json.loads(path.read_text())["steps"]
    )
    assert evidence["share"] == pytest.approx(dearest["own_ns"] / steps)
    again = subprocess.run(
        [*LEADLINE, "judge", ended.run.path, "--rule", RULE, "--json"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert finding["message"] in json.dumps(json.loads(again.stdout), ensure_ascii=False)
