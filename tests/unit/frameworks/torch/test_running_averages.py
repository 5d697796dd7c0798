"""Running averages of normalizations that evaluation cannot use."""

from __future__ import annotations

import fake_device
import pytest
import torch
from torch import nn

from leadline.frameworks.torch.diagnose.running_averages import RunningAverages


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.BatchNorm1d(4))


def train(trained: nn.Sequential, inputs: torch.Tensor | None = None) -> None:
    trained(torch.randn(8, 4) if inputs is None else inputs).sum().backward()


def look(averages: RunningAverages) -> dict[str, float]:
    with torch.no_grad():
        return averages.results("Net")


def test_a_healthy_model_has_none() -> None:
    trained = model()
    averages = RunningAverages({trained: ""})
    train(trained)
    assert look(averages) == {"Net/nonfinite_averages": 0.0, "Net/initial_averages": 0.0}


def test_a_batch_with_infinity_is_seen_in_each_average_behind_it() -> None:
    trained = model()
    averages = RunningAverages({trained: "net."})
    train(trained, torch.full((8, 4), float("inf")))
    found = look(averages)
    assert found["Net/nonfinite_averages"] == 4.0
    assert found["net.1.running_mean/nonfinite_average"] == found["net.3.running_var/nonfinite_average"] == 1.0


@pytest.mark.parametrize("name", ["momentum", "track_running_stats"])
def test_averages_that_are_not_updated_are_those_of_the_start(name: str) -> None:
    trained = model()
    setattr(trained[3], name, 0)
    averages = RunningAverages({trained: ""})
    train(trained)
    found = {"Net/nonfinite_averages": 0.0, "Net/initial_averages": 1.0, "3/initial_average": 1.0}
    assert look(averages) == found
    trained[3].weight.grad = None  # it has not run
    assert look(averages)["Net/initial_averages"] == 0.0


def test_a_layer_in_evaluation_mode_or_frozen_keeps_its_averages() -> None:
    trained = model()
    trained[1].eval()
    trained[3].requires_grad_(False).eval()
    averages = RunningAverages({trained: ""})
    train(trained)
    assert look(averages)["Net/initial_averages"] == 0.0


def test_a_model_without_averages_says_so() -> None:
    assert look(RunningAverages({nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False)): ""})) == {
        "Net/nonfinite_averages": -1.0
    }


def test_what_is_on_an_accelerator_is_known_once_its_copy_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = model()
    averages = RunningAverages({trained: ""})
    train(trained, torch.full((8, 4), float("nan")))
    device = fake_device.install(monkeypatch)
    assert look(averages) == {}
    assert look(averages) == {}
    device.arrive()
    assert look(averages)["Net/nonfinite_averages"] == 4.0
    device.is_capturing = True
    device.arrive()
    assert look(averages)["Net/nonfinite_averages"] == 4.0
    assert (device.fetched, device.waits) == (2, 0)
