"""What ``leadline doctor`` says that it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.cli.doctor_report import gather
from leadline.reader.run import Run
from leadline.records.series import TensorInfo
from leadline.testing.runs import Capture, RunWriter

INFOS = {
    "loss": TensorInfo("loss", ("losses",)),
    "weight": TensorInfo("weight", ("weights",)),
    "gradient/weight": TensorInfo("gradient/weight", ("gradients",)),
    "relu_output_0": TensorInfo("relu_output_0", ("layers",)),
}


def gathered(path: Path, *names: str, eval_names: tuple[str, ...] = (), steps: dict[str, int]) -> dict[str, Any]:
    writer = RunWriter(str(path / "run"))
    for step in range(3):
        writer.write(Capture(step, {name: {"value": 1.0} for name in names}, infos=INFOS))
    if eval_names:
        values = {name: {"value": 1.0} for name in eval_names}
        writer.write(Capture(3, values, mode="eval", mode_step=0, infos=INFOS))
    writer.end()
    reports = [{"steps": steps, "uncovered": [], "notes": []}]
    return gather(Run(writer.path), reports, is_late=False, limit=10.0, budgets={})


def gaps(report: dict[str, Any]) -> list[str]:
    return [gap["what"] for gap in report["uncovered"]]


def test_an_evaluation_without_losses_is_a_gap(tmp_path: Path) -> None:
    report = gathered(tmp_path, *INFOS, eval_names=("relu_output_0",), steps={"train": 3, "eval": 4})
    assert gaps(report) == ["an evaluation without losses"]
    assert "in 4 eval steps" in report["uncovered"][0]["why"]
    assert report["notes"] == []


def test_nothing_is_missing_where_all_of_it_was_seen(tmp_path: Path) -> None:
    report = gathered(tmp_path, *INFOS, eval_names=("loss",), steps={"train": 3, "eval": 1})
    assert (gaps(report), report["notes"]) == ([], [])


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (("weight", "gradient/weight", "relu_output_0"), ["no loss"]),
        (("loss", "weight", "gradient/weight"), ["no activation"]),
        (("loss", "relu_output_0"), ["no weight", "no gradient"]),
    ],
)
def test_kinds_of_tensors_that_no_train_step_captured_are_named(
    tmp_path: Path, names: tuple[str, ...], missing: list[str]
) -> None:
    report = gathered(tmp_path, *names, steps={"train": 3})
    assert gaps(report) == missing
    assert report["notes"] == ["no evaluation was seen in these 3 steps"]
