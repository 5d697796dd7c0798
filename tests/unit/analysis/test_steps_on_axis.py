"""Steps stand at the train steps that were stored with them, whatever was captured beside them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from leadline.analysis.digest import Digest
from leadline.compaction.compactor import Compactor
from leadline.reader.run import Run
from leadline.records.event import Event
from leadline.testing.runs import SECOND_NS, START_NS, Capture, RunWriter, TimelineEvent

EPOCHS, TRAIN_STEPS, EVAL_STEPS, LONG_MS = 3, 16, 4, 700


def written(path: Path, *, has_mode_steps: bool) -> tuple[str, dict[str, dict[int, int]]]:
    """Write a run whose evaluations captured nothing; return it, and the time of the steps by mode and train step."""
    writer, truth, step, now = RunWriter(str(path)), {"train": {}, "eval": {}}, 0, START_NS
    finished = {"train": 0, "eval": 0}
    for _ in range(EPOCHS):
        for mode, count in (("train", TRAIN_STEPS), ("eval", EVAL_STEPS)):
            for place in range(count):
                took_ms = LONG_MS if (mode, place) == ("train", 0) else 10 + step
                args = {"own_ns": 0} | ({"mode_step": finished[mode]} if has_mode_steps else {})
                event = Event("step", step, now, took_ms * 1_000_000, mode, 1, args)
                writer.write(TimelineEvent(event))
                at = finished["train"] if mode == "train" else finished["train"] - 1
                truth[mode][at] = truth[mode].get(at, 0) + took_ms
                if mode == "train" and (finished["train"] == 0 or place == 10):
                    writer.write(Capture(step, {"loss": {"value": 1.0}}, mode_step=finished["train"]))
                finished[mode] += 1
                step, now = step + 1, now + took_ms * 1_000_000
    writer.end()
    return writer.path, truth


def times(table: pa.Table) -> dict[int, int]:
    pairs = zip(table["step"].to_pylist(), table["duration_ns"].to_pylist(), strict=True)
    return {step: duration_ns // 1_000_000 for step, duration_ns in pairs}


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_step_stands_at_its_train_step_although_evaluations_captured_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_compacted: bool
) -> None:
    monkeypatch.setenv("LEADLINE_COMPACT_BYTES", "1000")
    path, truth = written(tmp_path / "run", has_mode_steps=True)
    if is_compacted:
        assert Compactor(path).compact() > 0
    digest = Digest(Run(path))
    found = {mode: times(digest.steps(mode=mode, points=4000)) for mode in truth}
    assert found == truth
    assert found["train"][TRAIN_STEPS] == LONG_MS
    assert [*found["eval"]] == [TRAIN_STEPS * epoch - 1 for epoch in range(1, EPOCHS + 1)]


def test_a_run_of_an_earlier_version_is_read_without_stored_train_steps(tmp_path: Path) -> None:
    path, truth = written(tmp_path / "run", has_mode_steps=False)
    table = Digest(Run(path)).steps(points=4000)
    assert sum(times(table.filter(pc.equal(table["mode"], "train"))).values()) == sum(truth["train"].values())
    assert table["start_ns"].to_pylist()[0] == START_NS < START_NS + SECOND_NS
