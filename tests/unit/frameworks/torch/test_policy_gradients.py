"""Losses of a policy: advantages that learn with it, and ratios to the policy that is updated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn
from torch.distributions import Categorical, Normal
from torch.nn import functional as F

from leadline.frameworks.torch.capture.policy_gradients import PolicyGradients

X = torch.randn(24, 4, generator=torch.Generator().manual_seed(0))
ACTIONS = torch.arange(24) % 3
RETURNS = torch.randn(24, generator=torch.Generator().manual_seed(1))


def is_moving(loss: torch.Tensor) -> bool:
    return "loss/has_moving_advantage" in PolicyGradients().facts(loss.grad_fn, 0, is_first=True)


def parts() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the logits, log-probabilities and values of an actor and a critic with a common trunk."""
    hidden = nn.Sequential(nn.Linear(4, 8), nn.Tanh())(X)
    logits = nn.Linear(8, 3)(hidden)
    return logits, Categorical(logits=logits).log_prob(ACTIONS), nn.Linear(8, 1)(hidden).squeeze(1)


def error_of_stacked_steps(*, detached: bool) -> torch.Tensor:
    """Return the loss of advantages that are added up step by step, as for a generalized estimate."""
    _, log_probabilities, values = parts()
    running, found = torch.zeros(()), []
    for reward, value, following in zip(RETURNS, values, values.roll(-1), strict=True):
        running = reward + 0.9 * following - value + 0.8 * running
        found.append(running)
    advantages = torch.stack(found)
    factor = advantages.detach() if detached else advantages
    return advantages.pow(2).mean() - (factor * log_probabilities).mean()


def actor_and_critic(*, detached: bool, cross_entropy: bool = False) -> torch.Tensor:
    logits, log_probabilities, values = parts()
    advantages = RETURNS - (values.detach() if detached else values)
    if cross_entropy:
        log_probabilities = -F.cross_entropy(logits, ACTIONS, reduction="none")
    scaled = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    entropy = Categorical(logits=logits).entropy().mean()
    return F.mse_loss(values, RETURNS) - (scaled * log_probabilities).mean() - 0.01 * entropy


@pytest.mark.parametrize("detached", [False, True])
def test_an_advantage_with_a_gradient_is_found(detached: bool) -> None:
    assert is_moving(actor_and_critic(detached=detached)) is not detached
    assert is_moving(actor_and_critic(detached=detached, cross_entropy=True)) is not detached
    assert is_moving(error_of_stacked_steps(detached=detached)) is not detached


@pytest.mark.parametrize("detached", [False, True])
def test_an_advantage_of_a_normal_distribution_is_found_as_well(detached: bool) -> None:
    hidden = nn.Sequential(nn.Linear(4, 8), nn.Tanh())(X)
    values, means = nn.Linear(8, 1)(hidden).squeeze(1), nn.Linear(8, 2)(hidden)
    deviations = nn.Parameter(torch.zeros(2)).exp()
    advantages = RETURNS - (values.detach() if detached else values)
    log_probabilities = Normal(means, deviations).log_prob(torch.ones(24, 2)).sum(1)
    loss = 0.5 * F.mse_loss(values, RETURNS) - (advantages * log_probabilities).mean()
    assert is_moving(loss) is not detached


def sums_of_squares() -> torch.Tensor:
    """Return a cross entropy with the sums of squared probabilities and of weights, and the entropy."""
    layer = nn.Linear(4, 3)
    probabilities = layer(X).softmax(1)
    entropy = -(probabilities * layer(X).log_softmax(1)).sum(1).mean()
    return F.cross_entropy(layer(X), ACTIONS) + probabilities.pow(2).mean() - entropy + layer.weight.pow(2).sum()


def mixture() -> torch.Tensor:
    gates = nn.Linear(4, 2)(X).softmax(1)
    experts = torch.stack([nn.Linear(4, 3)(X).log_softmax(1)[range(24), ACTIONS] for _ in range(2)], 1)
    return -(gates * experts).sum(1).mean() + gates.pow(2).mean()


def focal() -> torch.Tensor:
    losses = F.cross_entropy(nn.Linear(4, 3)(X), ACTIONS, reduction="none")
    return ((1 - torch.exp(-losses)) ** 2 * losses).mean() + nn.Linear(4, 1)(X).pow(2).mean()


@pytest.mark.parametrize("loss", [sums_of_squares, mixture, focal])
def test_other_factors_of_log_probabilities_are_none(loss: Callable[[], torch.Tensor]) -> None:
    assert not is_moving(loss())


def clipped(new: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    ratio = (new - old).exp()
    return -torch.min(ratio * RETURNS, ratio.clamp(0.8, 1.2) * RETURNS).mean()


def updated(folder: Path, *, of_rollout: bool, rate: float = 0.1, every: int = 4, asked: bool = True) -> list[float]:
    """Return the check of a policy that is updated several times with what it has sampled.

    Args:
        of_rollout: Whether the old log-probabilities are those of the rollout.
        every: The updates for each rollout.
        asked: Whether actions are sampled in this process.
    """

    def train() -> None:
        policy = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(policy.parameters(), rate)
        for step in range(4):
            if step % every == 0 and asked:
                with torch.no_grad():
                    kept = Categorical(logits=policy(X)).log_prob(ACTIONS)
            new = Categorical(logits=policy(X)).log_prob(ACTIONS)
            clipped(new, kept if of_rollout else new.detach()).backward()
            optimizer.step()
            optimizer.zero_grad()

    found = scalars(watch(folder, train, "checks:every=1"), "checks")
    return list(found.get("loss/is_ratio_one", {}).values())


def test_ratios_to_the_policy_that_is_updated_are_found_at_the_second_update(tmp_path: Path) -> None:
    assert updated(tmp_path, of_rollout=False) == [24.0]


def test_ratios_of_one_are_right_where_nothing_has_changed_or_was_sampled_anew(tmp_path: Path) -> None:
    assert updated(tmp_path / "kept", of_rollout=True) == []
    assert updated(tmp_path / "once", of_rollout=False, every=1) == []
    assert updated(tmp_path / "kept once", of_rollout=True, every=1) == []
    assert updated(tmp_path / "warm-up from 0", of_rollout=True, rate=0.0) == []
    assert updated(tmp_path / "tiny rate", of_rollout=False, rate=1e-9) == []
    assert updated(tmp_path / "sampled elsewhere", of_rollout=False, asked=False) == []


def test_another_training_begins_with_ratios_of_one() -> None:
    policy, facts = nn.Linear(4, 3), PolicyGradients()

    def found(*, is_first: bool) -> dict[str, float]:
        new = Categorical(logits=policy(X)).log_prob(ACTIONS)
        return facts.facts(clipped(new, new.detach()).grad_fn, 1, is_first=is_first)

    assert found(is_first=True) == {}
    with torch.no_grad():
        policy.weight.mul_(1.1)
    assert found(is_first=True) == {}
    with torch.no_grad():
        policy.weight.mul_(1.1)
    assert found(is_first=False) == {"loss/is_ratio_one": 24.0}
