"""What a script prints or writes to tables is recorded, and nothing of it is altered."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import leadline
import leadline.torch
from leadline.frameworks.loggers import printed
from leadline.reader.run import Run
from leadline.training.session import api


class Training:
    """A classifier of which each epoch ends with an evaluation."""

    def __init__(self) -> None:
        self.model = nn.Linear(3, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def epoch(self) -> None:
        self.model.train()
        for _ in range(2):
            loss = nn.functional.cross_entropy(self.model(torch.randn(4, 3)), torch.randint(2, (4,)))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.model.eval()
        with torch.no_grad():
            self.model(torch.randn(4, 3))


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[list[Run]]:
    """Capture into a run, which is in the list at the end; standard output is kept."""
    runs: list[Run] = []
    with contextlib.redirect_stdout(io.StringIO()):
        hook = leadline.torch.Hook(out=str(folder), name="run", preset="light")
        yield runs
        assert hook.close()
    runs.append(leadline.open_run(hook.run))


def kept(run: Run, collection: str) -> dict[str, list[float]]:
    names = set(run.tensor_names(collection=collection)) & set(run.tensor_names(collection="printed"))
    return {name: [row["value"] for row in run.scalars(name).to_pylist()] for name in sorted(names)}


def test_lines_of_print_and_logging(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log, training = logging.getLogger("script"), Training()
    log.addHandler(logging.StreamHandler(io.StringIO()))
    log.setLevel(logging.INFO)
    with watched(tmp_path) as runs:
        for epoch in range(3):
            training.epoch()
            print("epoch", epoch, "| lr 0.1 | loss 9.0 | val acc:", 0.5 + epoch / 10)
            log.info("val precision %.1f temperature=%d", 0.5, epoch)
            print("42%|████ | 1/2 [00:00<00:00, 3.1it/s, val_auc=0.3]")
        assert isinstance(sys.stdout, io.StringIO)
        assert sys.stdout.getvalue().startswith("epoch 0 | lr 0.1 | loss 9.0 | val acc: 0.5\n")
    assert kept(runs[0], "metrics") == {
        "val acc": pytest.approx([0.5, 0.6, 0.7]),
        "val precision": [0.5, 0.5, 0.5],
    }
    assert kept(runs[0], "scalars") == {"temperature": [1.0, 2.0]}
    assert [row["mode"] for row in runs[0].scalars("val acc").to_pylist()] == ["eval"] * 3


def test_tables_and_files(tmp_path: Path) -> None:
    training, file, lines = Training(), io.StringIO(newline=""), []
    with watched(tmp_path) as runs:
        rows = csv.DictWriter(file, ["epoch", "val_auc"])
        rows.writeheader()
        table, console = Table("Epoch", "val f1", "val dice"), Console(file=sys.stdout)
        for epoch in range(2):
            training.epoch()
            rows.writerow({"epoch": epoch, "val_auc": 0.25})
            table.add_row(str(epoch), "75.0%", "-")
            lines.append(json.dumps({"val_recall": 0.5, "note": "", "nested": {"val_acc": 1.0}}))
            console.print("[bold]val kappa[/bold] 0.125")
            summary = Table("Metric", "Value")
            summary.add_row("val iou", "0.5")
        console.print(table)
    assert file.getvalue() == "epoch,val_auc\r\n0,0.25\r\n1,0.25\r\n"
    assert lines == ['{"val_recall": 0.5, "note": "", "nested": {"val_acc": 1.0}}'] * 2
    assert kept(runs[0], "metrics") == {
        "val f1": [0.75, 0.75],
        "val iou": [0.5, 0.5],
        "val kappa": [0.125, 0.125],
        "val_auc": [0.25, 0.25],
        "val_recall": [0.5, 0.5],
    }


def test_what_is_logged_too_or_is_in_doubt_is_not_counted_twice(tmp_path: Path) -> None:
    training = Training()

    def log(values: dict[str, float]) -> None:
        current = api.current()
        assert current is not None
        current.recorder.log(values, "metrics")
        current._loggers._interceptor.printed.note_logged()  # type: ignore[union-attr]

    with watched(tmp_path) as runs:
        for _ in range(2):
            training.epoch()
            print("val accuracy: 0.51")
            log({"val/acc": 0.5123})
            print("accuracy: 0.9")
            for kind in range(2):
                print("val recall:", kind / 4)
    assert kept(runs[0], "metrics") == {}
    assert kept(runs[0], "scalars") == {"val recall": [0.25, 0.25]}
    assert [row["value"] for row in runs[0].scalars("val/acc").to_pylist()] == [0.5123, 0.5123]


def test_lines_of_libraries_and_of_leadline_are_not_read() -> None:
    assert printed._origin(json.__file__) == "library"
    assert printed._origin(torch.__file__) == "library"
    assert printed._origin(leadline.__file__) == "leadline"
    assert printed._origin(Console.print.__code__.co_filename) == "passes on"
    assert printed._origin(__file__) == "script"


def test_everything_is_as_before_afterwards(tmp_path: Path) -> None:
    before: Any = (csv.writer, json.dumps, logging.Logger.handle, Table.add_row)
    with watched(tmp_path):
        assert "write" in vars(sys.stdout)
        assert csv.writer is not before[0]
        Training().epoch()
        with pytest.raises(TypeError, match="write"):
            csv.writer(1)  # type: ignore[arg-type]
        stream = sys.stdout
    assert "write" not in vars(stream)
    assert (csv.writer, json.dumps, logging.Logger.handle, Table.add_row) == before
