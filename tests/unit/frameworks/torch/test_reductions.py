"""The wait for other ranks at the end of a backward pass, as a reducer's own times tell it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn

from leadline.frameworks.torch.timing.gradient_reduction import GradientReductions


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def replica() -> nn.Module:
    return nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))


def backward(model: nn.Module) -> int:
    loss = model(torch.ones(3, 4)).sum()
    begun = time.perf_counter_ns()
    loss.backward()
    return time.perf_counter_ns() - begun


def test_what_the_pass_takes_beyond_the_last_gradient_is_waiting() -> None:
    model, reductions = replica(), GradientReductions()
    reductions.look([model, nn.Linear(2, 2)])
    took = backward(model)
    (found,) = reductions.after_backward(took + 1_000_000_000)
    assert 1_000_000_000 <= found.waited_ns <= took + 1_000_000_000
    assert (found.bytes, found.group) == (4 * (4 * 4 + 4 + 4 * 2 + 2), "world")


def test_a_pass_in_which_nothing_is_reduced_says_nothing() -> None:
    model, reductions = replica(), GradientReductions()
    assert not reductions
    reductions.look([model])
    reductions.look([model])
    assert reductions
    with model.no_sync():  # type: ignore[operator]
        assert reductions.after_backward(backward(model)) == []
    assert len(reductions.after_backward(backward(model))) == 1
    assert reductions.after_backward(1_000) == []  # of another model


def test_a_model_within_another_is_found_and_one_that_is_gone_is_let_go() -> None:
    reductions = GradientReductions()
    outer: Any = nn.ModuleDict({"inner": replica()})
    reductions.look([outer])
    assert len(reductions.after_backward(backward(outer["inner"]))) == 1
    del outer["inner"]
    import gc

    gc.collect()
    assert reductions.after_backward(1_000) == []
