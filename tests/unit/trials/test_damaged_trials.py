"""Damaged and unusual trials: what is whole is read, and a line names what is not."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import leadline
from leadline.cli.app import application
from leadline.errors import ConfigurationError, NotCapturedError, RunExistsError
from leadline.formats.event_file import masked_crc32c, message_of, read_tensor
from leadline.reader.run import list_runs
from leadline.trials.importer import import_trial
from leadline.trials.marshal_data import read_marshaled

EVENTS = "events/000000000002/000000000002_worker_0.tfevents"
INDEX = "index/000000000/000000000002_worker_0.json"
CopyOf = Callable[[str], Path]


def test_checksum_of_the_standard() -> None:
    # RFC 3720, B.4: the CRC-32C of 32 zero bytes is 0x8A9136AA
    crc = 0x8A9136AA
    assert masked_crc32c(bytes(32)) == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_truncated_event_file(copy_of: CopyOf, tmp_path: Path) -> None:
    trial = copy_of("tf_tape")
    size = (trial / EVENTS).stat().st_size - 10
    os.truncate(trial / EVENTS, size)
    *whole, cut = sorted(
        json.loads((trial / INDEX).read_text())["tensor_payload"], key=lambda entry: int(entry["start_idx"])
    )
    imported = import_trial(trial, tmp_path / "run")
    assert imported.damage == [
        f"{EVENTS} is damaged at byte {cut['start_idx']:,}: {cut['tensorname']}: the file ends at byte {size:,}; "
        "1 of 15 records left out"
    ]
    run = leadline.open_run(tmp_path / "run")
    assert run.damage == imported.damage
    assert sorted(run.tensor_names(step=2)) == sorted(entry["tensorname"] for entry in whole)


@pytest.mark.parametrize("offset", [0, 8, 12, -4])
def test_flipped_bit_of_a_record(copy_of: CopyOf, tmp_path: Path, offset: int) -> None:
    trial = copy_of("tf_tape")
    data = bytearray((trial / EVENTS).read_bytes())
    entry = json.loads((trial / INDEX).read_text())["tensor_payload"][1]
    start, end = entry["start_idx"], entry["start_idx"] + entry["length"]
    data[(start if offset >= 0 else end) + offset] ^= 128
    (trial / EVENTS).write_bytes(bytes(data))
    (line,) = import_trial(trial, tmp_path / "run").damage
    assert line.startswith(f"{EVENTS} is damaged at byte {start:,}: {entry['tensorname']}: ")
    assert line.endswith("1 of 15 records left out")
    run = leadline.open_run(tmp_path / "run")
    assert 2 not in run.tensor(entry["tensorname"]).steps()
    assert 2 in run.steps()


def test_missing_event_file(copy_of: CopyOf, tmp_path: Path) -> None:
    trial = copy_of("tf_tape")
    (trial / EVENTS).unlink()
    imported = import_trial(trial, tmp_path / "run")
    assert imported.damage == [
        f"{EVENTS} cannot be read (no such file or directory); 15 records of step 2 of worker_0 left out"
    ]
    assert leadline.open_run(tmp_path / "run").steps() == [0, 4]


def test_event_file_without_index(copy_of: CopyOf, tmp_path: Path) -> None:
    trial = copy_of("tf_tape")
    (trial / INDEX).unlink()
    imported = import_trial(trial, tmp_path / "run")
    assert imported.damage == ["events: 000000000002_worker_0.tfevents: no index file; left out"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON at byte 1"),
        ('{"tensor_payload": []}', "'meta' is missing"),
        ('{"meta": {"mode": "TRAIN", "mode_step": 2}}', "it lists neither tensors nor shapes"),
        ('{"meta": {"mode": "TEST", "mode_step": 2}, "shape_payload": []}', "unknown mode 'TEST'"),
        (
            '{"meta": {"mode": "TRAIN", "mode_step": 2, "event_file_name": "../../x"}, '
            '"tensor_payload": [{"tensorname": "a", "start_idx": 0, "length": 9}]}',
            "it names no event file of the trial: '../../x'",
        ),
    ],
)
def test_damaged_index(copy_of: CopyOf, tmp_path: Path, text: str, why: str) -> None:
    trial = copy_of("tf_tape")
    (trial / INDEX).write_text(text)
    imported = import_trial(trial, tmp_path / "run")
    assert imported.damage == [f"{INDEX} cannot be read ({why}); its step is left out"]


def test_damaged_collections(copy_of: CopyOf, tmp_path: Path) -> None:
    trial = copy_of("tf_tape")
    (trial / "collections/000000000/worker_0_collections.json").write_text("[]")
    imported = import_trial(trial, tmp_path / "run")
    assert len(imported.damage) == 1
    assert imported.damage[0].startswith("collections/000000000/worker_0_collections.json cannot be read (")
    assert leadline.open_run(tmp_path / "run").tensor("loss").steps() == [0, 2, 4]


def test_nothing_left(copy_of: CopyOf, tmp_path: Path) -> None:
    trial = copy_of("tf_tape")
    shutil.rmtree(trial / "index")
    with pytest.raises(ConfigurationError, match="a trial without index files"):
        import_trial(trial, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert not list(tmp_path.glob("run.*"))


def test_no_trial(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, why in (
        (tmp_path, "is not a trial: "),
        (tmp_path / "none", "no such folder"),
        (tmp_path / "file", "is a file"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            leadline.open_trial(path)


def test_existing_run(copy_of: CopyOf, tmp_path: Path) -> None:
    with pytest.raises(RunExistsError, match="exists; choose another name"):
        import_trial(copy_of("tf_tape"), tmp_path)


def test_trial_without_end(copy_of: CopyOf, tmp_path: Path) -> None:
    trial = copy_of("tf_tape")
    (trial / "training_job_end.ts").unlink()
    assert leadline.open_trial(trial).status == "Interrupted"


def test_a_changed_trial_is_imported_again(copy_of: CopyOf) -> None:
    trial = copy_of("tf_tape")
    (trial / "training_job_end.ts").unlink()
    shutil.move(trial / INDEX, trial / "kept.json")
    first = leadline.open_trial(trial)
    shutil.move(trial / "kept.json", trial / INDEX)
    (trial / "training_job_end.ts").write_bytes(b"")
    second = leadline.open_trial(trial)
    assert (first.steps(), first.status) == ([0, 4], "Interrupted")
    assert (second.steps(), second.status) == ([0, 2, 4], "Completed")


def test_late_tensors_are_matched_by_the_regular_expressions(copy_of: CopyOf, tmp_path: Path) -> None:
    trial = copy_of("tf_tape")
    path = trial / "collections/000000000/worker_0_collections.json"
    document = json.loads(path.read_text())
    for entry in document["collections"].values():
        entry["tensor_names"] = [name for name in entry["tensor_names"] if name != "gradients/dense/kernelGrad"]
    path.write_text(json.dumps(document))
    import_trial(trial, tmp_path / "run")
    run = leadline.open_run(tmp_path / "run")
    assert run.tensor("gradients/dense/kernelGrad").collections == ("gradients",)


def test_several_workers(copy_of: CopyOf, tmp_path: Path) -> None:
    trial = copy_of("tf_tape")
    for path in sorted(trial.rglob("*_worker_0.*")) + sorted(trial.rglob("worker_0_*")):
        second = path.with_name(path.name.replace("worker_0", "worker_1"))
        if path.suffix == ".json":
            text = path.read_text().replace("worker_0", "worker_1").replace('"num_workers": 1', '"num_workers": 2')
            second.write_text(text)
        else:
            shutil.copy(path, second)
    (trial / "index/000000000/000000000004_worker_1.json").unlink()
    (trial / "events/000000000004/000000000004_worker_1.tfevents").unlink()
    imported = import_trial(trial, tmp_path / "run")
    run = leadline.open_run(tmp_path / "run")
    assert imported.damage == []
    assert run.workers() == ["worker_0", "worker_1"]
    tensor = run.tensor("loss")
    assert tensor.value(2, worker="worker_1") == tensor.value(2, worker="worker_0")
    with pytest.raises(NotCapturedError):
        tensor.value(4, worker="worker_1")


def call(*arguments: str) -> Any:
    """Run a command; its error is raised, so that its message can be compared."""
    result = CliRunner().invoke(application(arguments[0]), list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_import_command(copy_of: CopyOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = copy_of("tf_tape")
    (trial / EVENTS).unlink()
    monkeypatch.setenv("LEADLINE_ROOT", str(tmp_path / "runs"))
    result = call("import", str(trial))
    assert result.stdout == f"{tmp_path / 'runs' / 'tf_tape'}: 15 tensors, 2 steps, 1 worker\n"
    assert result.stderr.startswith(f"leadline: {EVENTS} cannot be read")
    with pytest.raises(RunExistsError, match="exists; choose another name"):
        call("import", str(trial))
    with pytest.raises(ConfigurationError, match="no such folder; give the folder of a trial"):
        call("import", str(tmp_path / "none"))


@pytest.mark.parametrize("command", ["show", "tensors", "values", "judge"])
def test_commands_read_a_trial(copy_of: CopyOf, command: str) -> None:
    more = ["loss"] if command == "values" else []
    assert "loss" in call(command, str(copy_of("tf_tape")), *more).stdout


def test_a_trial_is_exported_and_reported(copy_of: CopyOf, tmp_path: Path) -> None:
    call("export", str(copy_of("tf_tape")), "--to", "csv", "-o", str(tmp_path / "csv"))
    assert "gradients/dense/kernelGrad" in (tmp_path / "csv" / "series.csv").read_text()
    call("report", str(tmp_path / "tf_tape"), "-o", str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").stat().st_size > 100_000


def test_dashboard_of_a_trial(copy_of: CopyOf) -> None:
    from leadline.cli.ui import root_and_path

    root, path, _ = root_and_path(str(copy_of("tf_tape")))
    assert path == "/runs/tf_tape/overview"
    assert [run.name for run in list_runs(root)] == ["tf_tape"]


def test_a_folder_of_trials_is_judged(copy_of: CopyOf, tmp_path: Path) -> None:
    copy_of("tf_tape")
    copy_of("pt1")
    assert "2 runs" in call("judge", str(tmp_path)).stdout


@pytest.mark.parametrize("data", [b"", b"\x00" * 15, b"\xff" * 40])
def test_no_record(data: bytes) -> None:
    with pytest.raises(ValueError, match="record"):
        message_of(data)


def test_random_bytes_are_no_tensors(copy_of: CopyOf) -> None:
    trial = copy_of("tf_tape")
    entry = json.loads((trial / INDEX).read_text())["tensor_payload"][0]
    record = (trial / EVENTS).read_bytes()[: entry["length"]]
    message = bytearray(record)
    for at in range(12, len(record) - 4):
        message[at] ^= 255
        with suppress(ValueError):
            read_tensor(bytes(message))
        message[at] ^= 255


def test_marshaled_code_is_refused() -> None:
    import marshal

    value = {("f", 1, "g"): (1, 2, 0.5, 1.5, {("h", 2, "i"): (1 << 40, 1, 0.25, -1)})}
    assert read_marshaled(marshal.dumps(value)) == value
    with pytest.raises(ValueError, match="type b'c'"):
        read_marshaled(marshal.dumps(compile("1", "x", "exec")))
    for size in range(len(marshal.dumps(value))):
        with pytest.raises(ValueError, match=r"truncated|damaged"):
            read_marshaled(marshal.dumps(value)[:size])
