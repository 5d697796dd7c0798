"""Runs with a damaged byte: they open and can be judged, or there is one clear error line."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest
from generated_runs import float_tensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadline.errors import LeadlineError
from leadline.judge.evaluator import Evaluator
from leadline.judge.judge import judge_run
from leadline.reader.find_runs import list_runs, read_manifest
from leadline.reader.run import Run
from leadline.records.event import Event
from leadline.records.manifest import RuleSpec
from leadline.rules.registry import BUILT_IN, find_rule
from leadline.testing.runs import START_NS, Capture, RunWriter, SystemSample, TimelineEvent


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small judged run with a file of every kind."""
    path = tmp_path_factory.mktemp("whole") / "run"
    writer = RunWriter(path, rules=[RuleSpec(name, name) for name in ("exploding_tensor", "stalled_training")])
    for step in range(4):
        writer.write(Capture(step, {"loss": {"value": float("nan") if step == 2 else 1.0}}))
        writer.write(float_tensors(step, {"a.weight": [1.0, 2.0]}))
        writer.write(SystemSample(START_NS + step * 10**9))
    writer.write(TimelineEvent(Event("forward", 0, START_NS, 5)))
    judge_run(writer.end().path, write=True)
    return path


def ask_everything(path: Path) -> None:
    list_runs(path.parent)
    run = Run(str(path))
    assert isinstance(run.status, str)
    run.worker_documents()
    for table in (run.scalars, run.series, run.system_metrics, run.timeline, run.findings):
        table()
    for name in run.tensor_names():
        assert repr(run.tensor(name))
    run.verify()
    rules = [(name, find_rule(name)()) for name in BUILT_IN] + [("raw", find_rule("weight_update_ratio")(num_steps=1))]
    progress = Evaluator(str(path), rules, started_ns=read_manifest(str(path)).started_ns).advance(is_over=True)
    assert not any(each["error"] for each in progress.rules.values())


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_never_causes_a_traceback(whole: Path, tmp_path: Path, data: st.DataObject) -> None:
    copy = tmp_path / "run"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(whole, copy)
    files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(copy) for name in names)
    target = Path(data.draw(st.sampled_from(files)))
    content = bytearray(target.read_bytes())
    match data.draw(st.sampled_from(["flip", "cut", "empty", "other", "remove"])):
        case "flip" if content:
            content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
            target.write_bytes(content)
        case "cut" if content:
            target.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
        case "other":
            target.write_bytes(data.draw(st.sampled_from([b"[]\n", b"{}\n", b"3\n", b'"x"\n', b"\xff\xfe\n"])))
        case "remove":
            target.unlink()
        case _:
            target.write_bytes(b"")
    with contextlib.suppress(LeadlineError):
        ask_everything(copy)
