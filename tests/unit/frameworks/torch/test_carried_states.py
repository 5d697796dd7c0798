"""Recurrent states that are carried from batch to batch, which a loader has drawn at random or in order."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from leadline.frameworks.torch.check.batch import Batch
from leadline.frameworks.torch.check.carried_states import carried_state, draws_at_random, last_state
from leadline.frameworks.torch.check.outcome import CheckedStep
from leadline.frameworks.torch.check.step_copy import StepCopy
from leadline.frameworks.torch.check.step_tape import TapeMode
from leadline.instrumentation.check import TimeLimit

DATA = TensorDataset(torch.zeros(8, 3))


@pytest.mark.parametrize(
    ("options", "is_random"),
    [
        ({"shuffle": True}, True),
        ({}, False),
        ({"sampler": DistributedSampler(DATA, 2, 0, shuffle=True)}, True),
        ({"sampler": DistributedSampler(DATA, 2, 0, shuffle=False)}, False),
        ({"batch_size": None, "shuffle": None}, False),
    ],
)
def test_the_sampler_of_a_loader_tells_whether_it_draws_at_random(options: dict[str, Any], is_random: bool) -> None:
    assert draws_at_random(iter(DataLoader(DATA, **options))) == is_random


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.read = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
        states, state = self.lstm(x, state)
        return self.read(states[:, -1]), state


def said(*, carries: bool, is_random: bool) -> str:
    """Return what is said of a step after another one."""
    torch.manual_seed(0)
    net, mode = Net(), TapeMode()
    _, state = net(torch.randn(6, 5, 3), None)
    left = tuple(part.detach() for part in state)
    mode.tape.last_states = {id(net.lstm): last_state((None, state))}
    with mode:
        x = torch.randn(6, 5, 3)
        mode.keep_batch((x, torch.zeros(6)), is_random=is_random)
        given = (x, left if carries else None)
        mode.keep_inputs((given, {}))
        mode.keep_state(net)
        with mode.left_to_script():
            output = net(*given)
        mode.add(net, given, {}, output)
        loss = output[0].square().mean()
        loss.backward()
    mode.tape.losses.append(loss)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    step = StepCopy(mode.tape, optimizer, (), step_number=2, limit=TimeLimit.of_order(60))
    found = carried_state(CheckedStep(step, Batch(step)))
    return "" if found is None else found.message


def test_a_state_of_another_batch_is_named_where_batches_are_drawn_at_random() -> None:
    assert said(carries=True, is_random=True).startswith("lstm begins with the state that the batch before has left")
    assert not said(carries=True, is_random=False)
    assert not said(carries=False, is_random=True)
