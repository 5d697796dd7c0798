"""Examples that a trainer leaves out of a data set are counted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn

MODULE = "datasets.arrow_dataset"


class Dataset(list[int]):
    def filter(self, keeps: Callable[[int], bool]) -> Dataset:
        return Dataset(filter(keeps, self))


def checks(monkeypatch: pytest.MonkeyPatch, folder: Path, caller: str, *limits: int) -> dict[str, float]:
    """Return the checks after a module has filtered a data set of ten examples several times."""
    module = ModuleType(MODULE)
    module.Dataset = Dataset
    monkeypatch.setitem(sys.modules, MODULE, module)
    trainer = ModuleType(caller)
    exec("def prepare(data, limit):\n    return data.filter(lambda example: example < limit)", vars(trainer))

    def train() -> None:
        for limit in limits:
            assert trainer.prepare(Dataset(range(10)), limit) == list(range(limit))
        layer = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(layer.parameters(), 0.01)
        layer(torch.ones(3, 2)).sum().backward()
        optimizer.step()

    found = scalars(watch(folder, train, "checks:every=1"), "checks")
    assert Dataset.filter.__module__ == __name__
    assert Dataset.filter.__code__.co_filename == __file__
    return {name: values[0] for name, values in found.items() if name.startswith("TRL/")}


def test_the_data_set_that_loses_most_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = checks(monkeypatch, tmp_path, "trl.trainer.sft_trainer", 9, 4, 10)
    assert found == {"TRL/dropped_examples": 6, "TRL/given_examples": 10}


def test_nothing_left_out_or_filtered_by_the_script_is_no_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert checks(monkeypatch, tmp_path / "all", "trl.trainer.sft_trainer", 10) == {}
    assert checks(monkeypatch, tmp_path / "script", "prepare_data", 4) == {}
