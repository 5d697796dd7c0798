"""Episodes that Stable-Baselines3 collects, and the actions that its first policy reaches."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hooked_run import scalars, watch
from torch import nn

MODULE = "stable_baselines3.common.base_class"


class DiagGaussianDistribution:
    pass


class SquashedDiagGaussianDistribution(DiagGaussianDistribution):
    pass


class BaseAlgorithm:
    def __init__(self, *, distribution: Any = None, bounds: tuple[float, float] = (-1, 1), updates: int = 0) -> None:
        low, high = (np.full(2, bound, np.float32) for bound in bounds)
        self.action_space = SimpleNamespace(low=low, high=high)
        self.policy = SimpleNamespace(action_dist=distribution, log_std=nn.Parameter(torch.zeros(2)))
        self._n_updates, self.known = updates, 0

    def _update_info_buffer(self, infos: list[dict[str, Any]], dones: Any = None) -> None:
        self.known += len(infos)


class PPO(BaseAlgorithm):
    pass


def ended(length: int, *, is_truncated: bool = False, has_monitor: bool = True) -> dict[str, Any]:
    return {"TimeLimit.truncated": is_truncated} | ({"episode": {"l": length, "r": 1.0}} if has_monitor else {})


def checks(
    monkeypatch: pytest.MonkeyPatch, folder: Path, algorithm: BaseAlgorithm, *infos: dict[str, Any]
) -> dict[str, float]:
    """Return the checks after an algorithm has seen these ends of episodes, each beside one that goes on."""
    module = ModuleType(MODULE)
    module.BaseAlgorithm = BaseAlgorithm
    monkeypatch.setitem(sys.modules, MODULE, module)

    def train() -> None:
        layer = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(layer.parameters(), 0.01)
        algorithm._update_info_buffer([{}, {}])
        for info in infos:
            algorithm._update_info_buffer([info, {}], np.array([True, False]))
        layer(torch.ones(3, 2)).sum().backward()
        optimizer.step()

    found = scalars(watch(folder, train, "checks:every=1"), "checks")
    assert algorithm.known == 2 * len(infos) + 2
    return {name: values[0] for name, values in found.items() if name.startswith("PPO/")}


def test_episodes_are_counted_by_their_length_and_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = checks(monkeypatch, tmp_path, PPO(), ended(7), ended(9), ended(9, is_truncated=True), ended(9))
    assert found == {
        "PPO/episodes": 4,
        "PPO/longest_episode": 9,
        "PPO/episodes_at_limit": 2,
        "PPO/truncated_episodes": 1,
    }


def test_episodes_of_unknown_length_or_end_are_not_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    unknown = {"episode": {"l": 9, "r": 1.0}}
    assert checks(monkeypatch, tmp_path, PPO(), ended(9, has_monitor=False), unknown) == {}


@pytest.mark.parametrize(("low", "high"), [(0.0, 1000.0), (-2.0, 2.0), (-0.05, 0.05), (4.0, 8.0)])
def test_what_the_first_policy_reaches_of_its_actions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, low: float, high: float
) -> None:
    algorithm = PPO(distribution=DiagGaussianDistribution(), bounds=(low, high))
    found = checks(monkeypatch, tmp_path, algorithm)
    places = np.linspace(-3, 3, 100_001)
    density = np.exp(-(places**2) / 2) / math.sqrt(2 * math.pi)
    is_within = (places >= low) & (places <= high)
    assert found["PPO/action_reach"] == pytest.approx(6 * is_within.mean() / (high - low), rel=1e-3, abs=1e-4)
    assert found["PPO/actions_within"] == pytest.approx(6 * (density * is_within).mean(), abs=3e-3)
    assert (found["PPO/action_low"], found["PPO/action_high"]) == pytest.approx((low, high))
    assert found["PPO/action_deviation"] == 1


@pytest.mark.parametrize(
    "algorithm",
    [
        PPO(distribution=SquashedDiagGaussianDistribution(), bounds=(0, 1000)),
        PPO(distribution=DiagGaussianDistribution(), bounds=(0, 1000), updates=10),
        PPO(distribution=DiagGaussianDistribution(), bounds=(-np.inf, np.inf)),
        PPO(),
    ],
    ids=["scaled to the space", "trained before", "without bounds", "no actions of a normal distribution"],
)
def test_other_policies_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, algorithm: BaseAlgorithm
) -> None:
    assert checks(monkeypatch, tmp_path, algorithm) == {}


def test_the_method_is_restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = BaseAlgorithm._update_info_buffer
    checks(monkeypatch, tmp_path, PPO())
    assert BaseAlgorithm._update_info_buffer is before
