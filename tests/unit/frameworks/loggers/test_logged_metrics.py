"""Logged metrics next to losses and accuracy, after the last step, and in processes that never train."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

import leadline
import leadline.torch
from leadline.reader.run import Run
from leadline.records.metric_roles import role_in
from leadline.training.recorder.logged_rows import LoggedRows
from leadline.training.session import api


def log(values: dict[str, float]) -> None:
    current = api.current()
    assert current is not None
    current.recorder.log(values, "metrics")


def recorded(folder: Path, train: Any) -> Run:
    hook = leadline.torch.Hook(out=str(folder), name="run", preset="light")
    train()
    assert hook.close()
    return leadline.open_run(hook.run)


def steps_of(run: Run, name: str) -> dict[int, float]:
    return {row["step"]: row["value"] for row in run.scalars(name).to_pylist()}


def test_a_value_of_every_step_and_one_after_the_last(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for step in range(3):
            loss = torch.nn.functional.cross_entropy(model(torch.randn(4, 2)), torch.randint(3, (4,)))
            loss.backward()
            optimizer.step()
            log({"logged": step / 10, "accuracy": 0.75, "cross_entropy_output_0": 9.0})
        log({"last": 1.0})

    run = recorded(tmp_path, train)
    assert steps_of(run, "logged") == {0: 0.0, 1: pytest.approx(0.1), 2: pytest.approx(0.2)}
    assert steps_of(run, "last") == {2: 1.0}
    assert set(steps_of(run, "metrics/accuracy").values()) == {0.75}
    assert set(steps_of(run, "metrics/cross_entropy_output_0").values()) == {9.0}
    assert set(run.tensor_names(collection="losses")) == {"cross_entropy_output_0"}
    assert 0 in steps_of(run, "accuracy")


def test_the_scripts_own_accuracy_takes_precedence(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        log({"accuracy": 0.75})
        for _ in range(2):
            torch.nn.functional.cross_entropy(model(torch.randn(4, 2)), torch.randint(3, (4,))).backward()
            optimizer.step()

    assert steps_of(recorded(tmp_path, train), "accuracy") == {0: 0.75}


def test_a_process_that_never_trains_writes_no_document(tmp_path: Path) -> None:
    run = recorded(tmp_path, lambda: log({"logged": 1.0}))
    assert run.worker_documents() == {}


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be connected to Ray."""
    ray = types.ModuleType("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "ray", ray)


@pytest.mark.usefixtures("connected")
def test_rows_of_a_driver_of_ray_end_where_a_name_comes_again(tmp_path: Path) -> None:
    def drive() -> None:
        for row in range(3):
            log({"reward": row / 10})
            log({"actor/entropy": 1.0 - row / 10, **({"val": 5.0} if row == 1 else {})})

    run = recorded(tmp_path, drive)
    assert steps_of(run, "reward") == {0: 0.0, 1: pytest.approx(0.1), 2: pytest.approx(0.2)}
    assert steps_of(run, "actor/entropy") == {0: 1.0, 1: pytest.approx(0.9), 2: pytest.approx(0.8)}
    assert steps_of(run, "val") == {1: 5.0}
    assert {row["mode"] for row in run.scalars("reward").to_pylist()} == {"global"}


@pytest.mark.usefixtures("connected")
def test_rows_of_a_driver_stand_at_the_train_steps_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = iter([0, 0, 40, 40, 41])
    monkeypatch.setattr(LoggedRows, "_steps_of_others", lambda rows: next(trained))

    def drive() -> None:
        for row in range(5):
            log({"reward": row / 10})

    assert list(steps_of(recorded(tmp_path, drive), "reward")) == [0, 1, 40, 41, 42]


@pytest.mark.usefixtures("connected")
def test_a_process_of_ray_that_computes_has_no_rows(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for step in range(3):
            model(torch.randn(4, 2)).sum().backward()
            log({"reward": 0.0})
            log({"reward": step / 10})
            optimizer.step()

    assert steps_of(recorded(tmp_path, train), "reward") == {0: 0.0, 1: pytest.approx(0.1), 2: pytest.approx(0.2)}


def test_metrics_are_marked_with_their_role(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(3):
            model(torch.randn(4, 2)).sum().backward()
            optimizer.step()
            log({"reward": 1.0, "grad_norm": 3.0, "other": 4.0})

    infos = recorded(tmp_path, train).archive.infos()
    roles = {name: role_in(infos[name].collections) for name in ("reward", "grad_norm", "other")}
    assert roles == {"reward": "reward", "grad_norm": "gradient_norm", "other": ""}
