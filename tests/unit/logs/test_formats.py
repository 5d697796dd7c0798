"""What is read from logs of each kind: the numbers, their steps, and what is damaged."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from leadline.errors import ConfigurationError
from leadline.formats.event_file import masked_crc32c
from leadline.formats.protobuf import bytes_field, double_field, float_field, integer_field
from leadline.logs.find import read_log
from leadline.logs.training_log import TrainingLog

LOSSES = [2.5, 1.5, 1.0]


def table(log: TrainingLog) -> dict[str, list[tuple[int | None, float]]]:
    """Return the steps and values of each name."""
    found: dict[str, list[tuple[int | None, float]]] = {}
    for row in log.rows:
        for name, value in row.values.items():
            found.setdefault(name, []).append((row.step, value))
    return found


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def state(*steps: int) -> str:
    history: list[dict[str, Any]] = [{"epoch": step / 20, "loss": 1.0 / step, "step": step} for step in steps]
    history.append({"epoch": steps[-1] / 20, "eval_loss": 2.0, "step": steps[-1]})
    history.append({"train_loss": 9.0, "train_runtime": 60.0, "step": steps[-1]})  # means of the whole training
    return json.dumps({"log_history": history, "max_steps": 100, "train_batch_size": 8})


def test_the_state_of_a_trainer(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, "trainer_state.json", state(10, 20)))
    assert table(log) == {"loss": [(10, 0.1), (20, 0.05)], "eval_loss": [(20, 2.0)]}
    assert (log.unit, log.hyperparameters) == ("step", {"max_steps": 100, "train_batch_size": 8})


def test_of_several_checkpoints_the_latest_is_read(tmp_path: Path) -> None:
    written(tmp_path, "checkpoint-100/trainer_state.json", state(50, 100))
    written(tmp_path, "checkpoint-20/trainer_state.json", state(10, 20))
    assert table(read_log(str(tmp_path)))["loss"][-1][0] == 100


def test_the_history_of_keras(tmp_path: Path) -> None:
    text = json.dumps({"loss": LOSSES, "val_loss": [2.0, math.nan]})
    log = read_log(written(tmp_path, "history.json", text))
    assert log.unit == "epoch"
    assert table(log)["loss"] == list(enumerate(LOSSES))
    assert [step for step, _ in table(log)["val_loss"]] == [0, 1]


def test_lines_of_json_may_end_in_the_middle(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({"step": step, "loss": loss}) for step, loss in enumerate(LOSSES))
    log = read_log(written(tmp_path, "log.jsonl", f'{lines}\n{{"step": 3, "lo'))
    assert table(log) == {"loss": list(enumerate(LOSSES))}
    assert log.damage == ["1 of 4 lines are no JSON, and were left out"]


def test_records_within_records_are_named_after_both(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({"step": step, "train": {"loss": loss}}) for step, loss in enumerate(LOSSES))
    assert table(read_log(written(tmp_path, "log.jsonl", lines))) == {"train/loss": list(enumerate(LOSSES))}


def test_a_table_with_sparse_columns(tmp_path: Path) -> None:
    text = "epoch,step,train_loss,val_loss\n0,9,2.5,\n0,9,,2.25\n1,19,1.5,\n1,19,,nan\n"
    found = table(read_log(written(tmp_path, "lightning_logs/version_0/metrics.csv", text)))
    assert found["train_loss"] == [(9, 2.5), (19, 1.5)]
    assert found["val_loss"][0] == (9, 2.25)
    assert math.isnan(found["val_loss"][1][1])


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_steps_that_begin_again_in_each_epoch_are_not_taken_for_steps(tmp_path: Path, delimiter: str) -> None:
    rows = [["step", "loss"], ["0", "2.5"], ["1", "1.5"], ["0", "1.0"], ["1", "0.5"]]
    log = read_log(written(tmp_path, "log.csv", "\n".join(map(delimiter.join, rows))))
    assert (log.unit, table(log)) == ("row", {"loss": list(enumerate([*LOSSES, 0.5]))})


@pytest.mark.parametrize(
    ("line", "name", "unit"),
    [
        ("[2026-01-01 10:00:00] step {step}/300 | loss {loss} | 12.3 it/s", "loss", "step"),
        ("Epoch {step}: train loss {loss}", "train loss", "epoch"),
        ("{{'loss': {loss}, 'grad_norm': '1.5', 'epoch': {step}}}", "loss", "epoch"),
        ("iteration {step:,} loss={loss}", "loss", "step"),
        ("loss: {loss}", "loss", "row"),
    ],
)
def test_printed_text(tmp_path: Path, line: str, name: str, unit: str) -> None:
    steps = [0, 1, 2] if unit == "row" else [1000, 2000, 3000]
    printed = "\n".join(line.format(step=step, loss=loss) for step, loss in zip(steps, LOSSES, strict=True))
    log = read_log(written(tmp_path, "train.log", f"Loading 1000 samples\n{printed}\n"))
    assert (log.unit, table(log)[name]) == (unit, list(zip(steps, LOSSES, strict=True)))


def event(**fields: bytes | float) -> bytes:
    """Return a record of an event file, with its checksums."""
    message = b"".join(
        double_field(1, value) if name == "time" else integer_field(2, int(value)) if name == "step" else value
        for name, value in fields.items()
    )
    head = struct.pack("<Q", len(message))
    return head + struct.pack("<I", masked_crc32c(head)) + message + struct.pack("<I", masked_crc32c(message))


def scalar(tag: str, value: float) -> bytes:
    """Return the summary of one simple value."""
    entry = bytes_field(1, tag.encode()) + float_field(2, struct.pack("<f", value))
    return bytes_field(5, bytes_field(1, entry))


def test_event_files_are_read_up_to_what_is_still_written(tmp_path: Path) -> None:
    records = [event(time=1e9 + step, step=step, summary=scalar("loss", loss)) for step, loss in enumerate(LOSSES)]
    path = tmp_path / "tb" / "events.out.tfevents.1.host"
    path.parent.mkdir()
    path.write_bytes(b"".join(records)[:-5])
    log = read_log(str(tmp_path))
    assert table(log) == {"loss": [(0, 2.5), (1, 1.5)]}
    assert [row.time_ns for row in log.rows] == [10**18, 10**18 + 10**9]
    path.write_bytes(records[0] + b"\1" * 30)
    damaged = read_log(str(path))
    assert table(damaged) == {"loss": [(0, 2.5)]}
    assert "read up to a damaged place" in damaged.damage[0]


def wandb_item(key: str, value: Any) -> bytes:
    return bytes_field(1, bytes_field(1, key.encode()) + bytes_field(16, json.dumps(value).encode()))


def test_a_run_of_wandb_with_records_over_several_blocks(tmp_path: Path) -> None:
    rows = [wandb_item("loss", loss) + wandb_item("note", "x" * 20_000) for loss in LOSSES]
    messages = [bytes_field(5, wandb_item("lr", {"value": 0.1})[0:0] + wandb_item("lr", 0.1))]
    messages += [bytes_field(2, row + bytes_field(2, integer_field(1, step))) for step, row in enumerate(rows)]
    data = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
    for message in messages:
        first = True
        while message or first:
            room = 32_768 - len(data) % 32_768
            if room < 7:
                data += bytes(room)
                continue
            part, message = message[: room - 7], message[room - 7 :]
            kind = (1 if first else 4) if not message else (2 if first else 3)
            data += struct.pack("<IHB", 0, len(part), kind) + part
            first = False
    path = tmp_path / "wandb" / "offline-run-1" / "run-1.wandb"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    log = read_log(str(tmp_path))
    assert (table(log), log.hyperparameters) == ({"loss": list(enumerate(LOSSES))}, {"lr": 0.1})
    path.write_bytes(data[:-1])
    torn = read_log(str(path))
    assert (len(torn.rows), torn.damage) == (2, [])
    path.write_bytes(b"something else")
    with pytest.raises(ConfigurationError, match="does not begin as a file of W&B"):
        read_log(str(path))


def test_a_run_of_mlflow(tmp_path: Path) -> None:
    run = tmp_path / "mlruns" / "0" / "abc"
    lines = "".join(f"{1_700_000_000_000 + step} {loss} {step}\n" for step, loss in enumerate(LOSSES))
    written(run, "metrics/train/loss", f"{lines}torn")
    written(run, "params/lr", "0.1\n")
    written(run, "meta.yaml", "")
    log = read_log(str(tmp_path))
    assert (table(log), log.hyperparameters) == ({"train/loss": list(enumerate(LOSSES))}, {"lr": "0.1"})
    assert log.damage == ["train/loss: 1 lines are no values, and were left out"]


def test_a_database_of_mlflow(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE runs (run_uuid TEXT, name TEXT, start_time INTEGER)")
        database.execute(
            "CREATE TABLE metrics (key TEXT, value REAL, timestamp INTEGER, run_uuid TEXT, step INTEGER, is_nan BOOL)"
        )
        database.execute("CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT)")
        database.executemany("INSERT INTO runs VALUES (?, ?, ?)", [("old", "x", 1), ("new", "y", 2)])
        rows = [("loss", 1.0, 5, "old", 9, 0), ("loss", 0.0, 8, "new", 2, 1), ("loss", 2.5, 7, "new", 1, 0)]
        database.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", rows)
        database.commit()
    log = read_log(str(tmp_path))
    assert log.kind == "a run of MLflow (y)"
    ((one, first), (two, second)) = table(log)["loss"]
    assert (one, first, two, math.isnan(second)) == (1, 2.5, 2, True)
    path.write_bytes(b"SQLite format 3\0" + bytes(100))
    with pytest.raises(ConfigurationError, match="no database of MLflow"):
        read_log(str(path))


def test_of_several_runs_the_latest_is_read_and_named(tmp_path: Path) -> None:
    for number in range(2):
        path = written(tmp_path, f"version_{number}/metrics.csv", f"step,loss\n0,{number}.5\n1,1.0\n")
        os.utime(path, (1000 + number, 1000 + number))
    log = read_log(str(tmp_path))
    assert table(log)["loss"][0] == (0, 1.5)
    assert log.damage == [f"2 tables are there: the latest is read, {path}"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("notes.txt", b"nothing was trained\n", "no numbers with names in it"),
        ("empty.csv", b"", "no numbers with names in it"),
        ("model.bin", b"\0\1\2" * 50, "bytes that are no text"),
        ("config.json", b'{"hidden_size": 8}', "no numbers with names in it"),
    ],
)
def test_what_is_no_log_gets_one_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=message) as raised:
        read_log(str(tmp_path / name))
    assert "trainer_state.json" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_folder_without_a_log_is_described(tmp_path: Path) -> None:
    for name in "abcdefg":
        (tmp_path / name).touch()
    with pytest.raises(ConfigurationError, match=r"no log in it \(it holds a, b, c, d, e and 2 more\)"):
        read_log(str(tmp_path))
    with pytest.raises(ConfigurationError, match="no such file or folder"):
        read_log(str(tmp_path / "nowhere"))
