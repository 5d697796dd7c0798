"""Wait for other ranks at the end of a backward pass, from the reducer's timestamps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn

from leadline.frameworks.torch.timing.call_timing import GradientReductions


@pytest.fixture(autouse=True)
def single_rank(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def replica() -> nn.Module:
    return nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))


def backward(model: nn.Module) -> int:
    loss = model(torch.ones(3, 4)).sum()
    start_ns = time.perf_counter_ns()
    loss.backward()
    return time.perf_counter_ns() - start_ns


def test_time_after_the_last_gradient_counts_as_wait() -> None:
    model, reductions = replica(), GradientReductions()
    reductions.discover([model, nn.Linear(2, 2)])
    duration_ns = backward(model)
    (reduction,) = reductions.after_backward(duration_ns + 1_000_000_000)
    # DistributedDataParallel measures from a moment a little earlier
    assert 900_000_000 <= reduction.waited_ns <= duration_ns + 1_000_000_000
    assert (reduction.bytes, reduction.group) == (4 * (4 * 4 + 4 + 4 * 2 + 2), "world")


def test_a_pass_without_reduction_reports_nothing() -> None:
    model, reductions = replica(), GradientReductions()
    assert not reductions.replicas
    reductions.discover([model])
    reductions.discover([model])
    assert reductions.replicas
    with model.no_sync():  # type: ignore[operator]
        assert reductions.after_backward(backward(model)) == []
    assert len(reductions.after_backward(backward(model))) == 1
    assert reductions.after_backward(1_000) == []  # the model had no part in this pass


def test_a_nested_model_is_found_and_a_deleted_one_released() -> None:
    reductions = GradientReductions()
    outer: Any = nn.ModuleDict({"inner": replica()})
    reductions.discover([outer])
    assert len(reductions.after_backward(backward(outer["inner"]))) == 1
    del outer["inner"]
    import gc

    gc.collect()
    assert reductions.after_backward(1_000) == []
