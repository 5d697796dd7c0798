"""Algorithms of Stable-Baselines3 that are loaded in vain."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn

ALGORITHM, POLICY = "stable_baselines3.common.base_class", "stable_baselines3.common.policies"


class BasePolicy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net, self.log_std = nn.Linear(3, 2), nn.Parameter(torch.zeros(2))

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.net(inputs)


class BaseAlgorithm:
    def __init__(self) -> None:
        self.policy = BasePolicy()

    @classmethod
    def load(cls, path: dict[str, torch.Tensor]) -> BaseAlgorithm:
        algorithm = cls()
        algorithm.policy.load_state_dict(path)
        return algorithm

    def get_parameters(self) -> dict[str, torch.Tensor]:
        return self.policy.state_dict()

    def _setup_learn(self) -> None:
        pass

    def learn(self) -> None:
        self._setup_learn()
        optimizer = torch.optim.SGD(self.policy.parameters(), 0.01)
        self.policy.net(torch.ones(4, 3)).sum().backward()
        optimizer.step()


class PPO(BaseAlgorithm):
    pass


class DQN(BaseAlgorithm):
    pass


Session = Callable[[dict[str, torch.Tensor]], object]


def checks(monkeypatch: pytest.MonkeyPatch, folder: Path, session: Session) -> dict[str, float]:
    """Return the checks of loading after a session that is given what another algorithm has saved."""
    for name, owner in ((ALGORITHM, BaseAlgorithm), (POLICY, BasePolicy)):
        module = ModuleType(name)
        setattr(module, owner.__name__, owner)
        monkeypatch.setitem(sys.modules, name, module)
    saved = PPO().policy.state_dict()
    found = scalars(watch(folder, lambda: session(saved), "checks:every=1"), "checks")
    return {name: max(values.values()) for name, values in found.items() if name.endswith("/unused_load")}


def _in_vain(path: dict[str, torch.Tensor]) -> None:
    model = PPO()
    before = model.policy.net.weight.clone()
    model.load(path)
    assert torch.equal(model.policy.net.weight, before)
    model.learn()


def _after_learning(path: dict[str, torch.Tensor]) -> None:
    model = PPO()
    model.learn()
    PPO.load(path)
    model.learn()


@pytest.mark.parametrize("session", [_in_vain, _after_learning])
def test_a_model_that_is_thrown_away_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, session: Session
) -> None:
    assert checks(monkeypatch, tmp_path, session) == {"PPO/unused_load": 1}


def _kept(path: dict[str, torch.Tensor]) -> None:
    model = PPO()
    model = model.load(path)
    model.learn()


def _opponent(path: dict[str, torch.Tensor]) -> BaseAlgorithm:
    model = PPO()
    opponent = model.load(path)
    model.learn()
    return opponent


def _policy_alone(path: dict[str, torch.Tensor]) -> BasePolicy:
    model = PPO()
    policy = PPO.load(path).policy
    model.learn()
    return policy


def _predicting(path: dict[str, torch.Tensor]) -> None:
    model = PPO()
    model.load(path).policy.predict(torch.ones(1, 3))
    model.learn()


def _asked_for_parameters(path: dict[str, torch.Tensor]) -> None:
    model = PPO()
    model.load(path).get_parameters()
    model.learn()


def _copied(path: dict[str, torch.Tensor]) -> None:
    model = PPO()
    model.policy.net.load_state_dict(model.load(path).policy.net.state_dict())
    model.learn()


def _of_another_class(path: dict[str, torch.Tensor]) -> None:
    model = DQN()
    PPO.load(path)
    model.learn()


def _made_later(path: dict[str, torch.Tensor]) -> None:
    PPO.load(path)
    PPO().learn()


def _learning(path: dict[str, torch.Tensor]) -> None:
    model = PPO()
    PPO.load(path).learn()
    model.learn()


@pytest.mark.parametrize(
    "session",
    [
        _kept,
        _opponent,
        _policy_alone,
        _predicting,
        _asked_for_parameters,
        _copied,
        _of_another_class,
        _made_later,
        _learning,
    ],
)
def test_other_loads_are_not_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, session: Session) -> None:
    assert checks(monkeypatch, tmp_path, session) == {}


def test_the_methods_are_restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = [dict(vars(owner)) for owner in (BaseAlgorithm, BasePolicy)]
    checks(monkeypatch, tmp_path, _kept)
    assert [dict(vars(owner)) for owner in (BaseAlgorithm, BasePolicy)] == before
