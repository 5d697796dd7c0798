"""``leadline export --to smdebug``: a trial that reads like the run, with Leadline and with smdebug itself."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import leadline
from leadline.compat.export.trial import GrowingTrial, export_trial
from leadline.compat.smdebug import create_trial, modes
from leadline.errors import ConfigurationError
from leadline.exports.span import Span
from leadline.formats.event_file import DTYPES, read_tensor, record_of
from leadline.testing.runs import START_NS, Capture, RawTensors, RunWriter

DATA = Path(__file__).parents[2] / "data" / "smdebug"
TRIALS = ("pt1", "tf_tape", "xg1")


def write_run(path: Path) -> str:
    """A run of two ranks with losses, reductions, a bfloat16 tensor, and an eval step."""
    writer = RunWriter(path)
    for step in range(3):
        for rank in range(2):
            values = {"loss": {"value": 0.5 - step / 8}, "gradient/w": {"mean": step / 4, "l2": 2.0, "zero_ratio": 0.0}}
            writer.write(Capture(step, values, worker=f"rank{rank}-{rank + 7}"))
    writer.write(Capture(3, {"loss": {"value": 7.0}}, worker="rank0-7", mode="eval", mode_step=0))
    bits = (np.arange(6, dtype=np.float32).view(np.uint32) >> 16).astype("<u2")
    writer.write(RawTensors(1, {"w": ("BF16", (2, 3), bits.tobytes())}, worker="rank0-7"))
    writer.end()
    return str(path)


@pytest.mark.parametrize("name", TRIALS)
def test_records_are_those_that_smdebug_wrote(name: str, tmp_path: Path) -> None:
    """Every message equals the one in the file of smdebug, byte for byte, up to the type of reductions and the time."""
    export_trial(leadline.open_trial(DATA / name), str(tmp_path / "out"), Span())
    original, exported = _records(DATA / name), _records(tmp_path / "out")
    assert original.keys() == exported.keys()
    for key, record in original.items():
        before, after = read_tensor(record), read_tensor(exported[key])
        np.testing.assert_array_equal(before.values, after.values)
        if "smdebug/reductions" not in key[1]:
            assert before.values.dtype == after.values.dtype
            assert len(record) == len(exported[key]), key
            assert record[8 + 4 + 9 :][:-4] == exported[key][8 + 4 + 9 :][:-4], key  # after length and time


def _records(trial: Path) -> dict[tuple[int, str], bytes]:
    found = {}
    for path in sorted(trial.glob("index/*/*.json")):
        document = json.loads(path.read_text())
        events = (trial / document["meta"]["event_file_name"]).read_bytes()
        for entry in document["tensor_payload"]:
            start = entry["start_idx"]
            found[int(path.name[:12]), entry["tensorname"]] = events[start : start + entry["length"]]
    return found


@pytest.mark.parametrize("dtype", sorted(DTYPES.values()))
def test_every_type_is_read_back(dtype: str) -> None:
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    read = read_tensor(record_of("a:0", values, step=300, time_ns=START_NS, mode=2, mode_step=7))
    assert (read.name, read.step, read.values.dtype) == ("a:0", 300, values.dtype)
    np.testing.assert_array_equal(read.values, values)


def test_a_run_of_leadline(tmp_path: Path) -> None:
    exported = export_trial(leadline.open_run(write_run(tmp_path / "run")), str(tmp_path / "out"), Span())
    assert (exported.workers, exported.steps, exported.left_out) == (2, 7, [])
    trial = create_trial(tmp_path / "out")
    assert trial.workers() == ["worker_0", "worker_1"]
    assert (trial.steps(modes.TRAIN), trial.steps(modes.EVAL)) == ([0, 1, 2], [0])
    assert trial.tensor("loss").value(1, worker="worker_1").tolist() == [0.375]
    assert trial.tensor("loss").value(0, mode=modes.EVAL).tolist() == [7.0]
    assert trial.tensor("gradient/w").reduction_values(2) == {("mean", False): 0.5, ("l2", False): 2.0}
    assert trial.tensor("w").value(1).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert trial.tensor_names(collection="losses") == ["loss"]


def test_a_span_is_exported(tmp_path: Path) -> None:
    run = leadline.open_run(write_run(tmp_path / "run"))
    export_trial(run, str(tmp_path / "out"), Span(START_NS + 50_000_000, START_NS + 250_000_000))
    assert create_trial(tmp_path / "out").steps() == [1, 2]
    with pytest.raises(ConfigurationError, match="the folder is not empty"):
        export_trial(run, str(tmp_path / "out"), Span())


READ = """
import json, sys
from smdebug.trials import create_trial
trial = create_trial(sys.argv[1])
values = {}
for name in trial.tensor_names():
    tensor = trial.tensor(name)
    for step in tensor.steps():
        for worker in tensor.workers(step):
            reductions = tensor.reduction_values(step, worker=worker).items()
            entry = {"reductions": {f"{'abs_' * is_abs}{name}": float(value) for (name, is_abs), value in reductions}}
            try:
                value = tensor.value(step, worker=worker)
            except Exception as error:
                entry["error"] = type(error).__name__
            else:
                entry |= {"dtype": str(value.dtype), "shape": list(value.shape), "values": value.ravel().tolist()}
            values[f"{tensor.name} {step} {worker}"] = entry
names = sorted(mode.name for mode in trial.modes())
result = {"steps": trial.steps(), "modes": names, "workers": trial.workers(), "values": values}
print("RESULT" + json.dumps(result))
"""


@pytest.mark.skipif("SMDEBUG_PYTHON" not in os.environ, reason="SMDEBUG_PYTHON: a Python with smdebug 1.0.34")
@pytest.mark.parametrize("name", [*TRIALS, "run"])
def test_smdebug_itself_reads_the_export(name: str, tmp_path: Path) -> None:
    is_run = name == "run"
    source = write_run(tmp_path / "run") if is_run else str(DATA / name)
    export_trial(leadline.open_run(source), str(tmp_path / "out"), Span())
    exported = _read_with_smdebug(tmp_path / "out")
    if is_run:
        assert (exported["steps"], exported["modes"]) == ([0, 1, 2, 3], ["EVAL", "TRAIN"])
        assert exported["values"]["w 1 worker_0"]["values"] == [0, 1, 2, 3, 4, 5]
        assert exported["values"]["gradient/w 2 worker_1"]["reductions"] == {"mean": 0.5, "l2": 2.0}
        return
    original = _read_with_smdebug(DATA / name)
    for key, value in original["values"].items():
        if "error" in value:  # smdebug's reader loses raw tensors of which the shape is saved too
            assert exported["values"].pop(key)["reductions"] == value["reductions"]
        else:
            np.testing.assert_equal(exported["values"].pop(key), value)
    assert exported["values"] == {}
    assert [exported[part] for part in ("steps", "modes", "workers")] == [
        original[part] for part in ("steps", "modes", "workers")
    ]


def _read_with_smdebug(trial: Path) -> dict[str, dict[str, dict[str, object]]]:
    command = [os.environ["SMDEBUG_PYTHON"], "-c", READ, str(trial)]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    return dict(json.loads(output.partition("RESULT")[2]))


def test_a_growing_trial_has_complete_steps_and_in_the_end_all(tmp_path: Path) -> None:
    writer, folder = RunWriter(tmp_path / "run"), tmp_path / "growing"
    growing = GrowingTrial(str(tmp_path / "run"), str(folder))
    for step in range(3):
        writer.write(Capture(step, {"loss": {"value": float(step)}}, worker="rank0-7"))
    assert growing.update() == []
    assert not folder.exists()  # a step may still grow
    writer.write(Capture(3, {"loss": {"value": 3.0}}, worker="rank0-7"))
    assert growing.update() == []
    trial = create_trial(folder)
    assert (trial.steps(), trial.loaded_all_steps) == ([0, 1, 2], False)
    writer.write(RawTensors(4, {"w": ("F32", (2,), np.ones(2, "<f4").tobytes())}, worker="rank0-7"))
    writer.end()
    growing.update()
    assert (trial.steps(), trial.loaded_all_steps) == ([0, 1, 2, 3, 4], True)
    export_trial(leadline.open_run(tmp_path / "run"), str(tmp_path / "at_once"), Span())
    of_growing, of_export = (
        {str(p.relative_to(f)): p.read_bytes() for p in f.rglob("*") if p.is_file()}
        for f in (folder, tmp_path / "at_once")
    )
    assert of_growing == of_export
