"""Memory by owner against sums by hand, and allocator failures from a fake driver."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from leadline.frameworks.torch.diagnose.memory import OutOfMemoryWatch, is_out_of_memory, memory_by_owner


def test_memory_is_attributed_to_modules() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2, bias=False))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    memory = memory_by_owner([("", model)], [optimizer])
    rows = {row["module"]: row for row in memory["modules"]}
    assert (rows["0"]["parameters"], rows["0"]["gradients"]) == (4 * (4 * 8 + 8),) * 2
    assert rows["0"]["optimizer_state"] == 2 * 4 * (4 * 8 + 8) + 2 * 4  # two moments, and a step per parameter
    assert rows["1"]["buffers"] == 4 * 8 * 2 + 8
    assert (rows["2"]["kind"], rows["2"]["parameters"]) == ("Linear", 4 * 16)
    assert next(iter(rows)) == "0", "the largest comes first"
    assert memory["categories"]["parameters"] == sum(4 * parameter.numel() for parameter in model.parameters())
    assert memory["other_bytes"] is None, "not counted on the host"


def test_a_shared_tensor_counts_once() -> None:
    first = nn.Linear(4, 4, bias=False)
    second = nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    assert memory_by_owner([("a.", nn.Sequential(first, second))], [])["categories"]["parameters"] == 64


@pytest.mark.parametrize(
    ("error", "is_out_of_memory_error"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (MemoryError(), True),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
            True,
        ),
        (RuntimeError("shapes do not match"), False),
        (None, False),
    ],
)
def test_out_of_memory_errors_are_recognized(error: object, is_out_of_memory_error: bool) -> None:
    assert is_out_of_memory(error) is is_out_of_memory_error


def test_allocator_failures_are_reported_until_the_watch_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    attached: list[Callable[[int, int, int, int], None]] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch._C, "_cuda_attach_out_of_memory_observer", attached.append, raising=False)
    messages: list[str] = []
    watch = OutOfMemoryWatch(messages.append)
    watch.start()
    watch.start()
    (observe,) = attached
    observe(1, 2048, 10_000, 512)
    assert messages == ["cuda:1 could not allocate 2,048 bytes: 10,000 allocated, 512 free"]
    watch.stop()
    observe(1, 2048, 10_000, 512)
    assert len(messages) == 1
