"""Capture of the numbers that a script logs."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import leadline
from leadline.torch import Hook


def test_scalars_are_selected_by_name_and_the_last_value_waits_for_its_step(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Hook(out=str(tmp_path), name="run", preset="sagemaker", capture=["scalars:regex=^kept,every=2"]) as hook:
        for step in range(5):
            leadline.log({"kept/a": step, "other": step})
            model(torch.ones(3, 2)).mean().backward()
            optimizer.step()
    run = leadline.open_run(hook.run)
    kept = {row["step"]: row["value"] for row in run.tensor("kept/a").statistics("value").to_pylist()}
    other = {row["step"]: row["value"] for row in run.tensor("other").statistics("value").to_pylist()}
    assert kept == {0: 0.0, 2: 2.0, 4: 4.0}
    assert other == {0: 0.0, 4: 4.0}  # every 500 steps, and what waited at the end


def test_a_value_that_waits_is_never_written_at_a_step_of_another_mode(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Hook(out=str(tmp_path), name="run", preset="sagemaker") as hook:
        for step in range(3):
            model(torch.ones(3, 2)).mean().backward()
            optimizer.step()
            leadline.log(of_train=step)
        model.eval()
        with torch.no_grad():
            for step in range(2):
                nn.functional.mse_loss(model(torch.ones(3, 2)), torch.ones(3, 1))
                leadline.log(of_eval=step)
    run = leadline.open_run(hook.run)
    rows = {
        name: [
            (row["mode"], row["mode_step"], row["value"]) for row in run.tensor(name).statistics("value").to_pylist()
        ]
        for name in ("of_train", "of_eval")
    }
    assert rows == {
        "of_train": [("train", 0, 0.0), ("train", 2, 2.0)],  # every 500 steps, and what waited at the end
        "of_eval": [("eval", 0, 0.0), ("eval", 1, 1.0)],
    }


def test_the_overhead_of_a_short_run_is_at_most_its_loop_time(tmp_path: Path) -> None:
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(50)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Hook(out=str(tmp_path), name="run", capture=["all:every=1"]) as hook:
        model(torch.ones(3, 2)).mean().backward()
        optimizer.step()
        assert hook.session is not None
        cost = hook.session.recorder.cost
        assert 0 < cost.own_ns <= cost.loop_ns
