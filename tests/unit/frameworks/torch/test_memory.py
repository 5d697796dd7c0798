"""Whose the memory is equals what one adds up by hand; an allocator's call is passed on by a fake driver."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from leadline.frameworks.torch.diagnose.memory import OutOfMemoryWatch, is_out_of_memory, memory_by_owner


def test_each_module_has_what_its_tensors_take() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2, bias=False))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    found = memory_by_owner([("", model)], [optimizer])
    rows = {row["module"]: row for row in found["modules"]}
    assert (rows["0"]["parameters"], rows["0"]["gradients"]) == (4 * (4 * 8 + 8),) * 2
    assert rows["0"]["optimizer_state"] == 2 * 4 * (4 * 8 + 8) + 2 * 4  # two moments, and the step of each parameter
    assert rows["1"]["buffers"] == 4 * 8 * 2 + 8
    assert (rows["2"]["kind"], rows["2"]["parameters"]) == ("Linear", 4 * 16)
    assert next(iter(rows)) == "0", "the largest leads"
    assert found["categories"]["parameters"] == sum(4 * each.numel() for each in model.parameters())
    assert found["other_bytes"] is None, "of the host nobody counts it"


def test_what_is_shared_counts_once() -> None:
    first = nn.Linear(4, 4, bias=False)
    second = nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    assert memory_by_owner([("a.", nn.Sequential(first, second))], [])["categories"]["parameters"] == 64


@pytest.mark.parametrize(
    ("error", "is_meant"),
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
def test_which_errors_say_so(error: object, is_meant: bool) -> None:
    assert is_out_of_memory(error) is is_meant


def test_the_allocators_call_is_passed_on_until_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    attached: list[Callable[[int, int, int, int], None]] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch._C, "_cuda_attach_out_of_memory_observer", attached.append, raising=False)
    said: list[str] = []
    watch = OutOfMemoryWatch(said.append)
    watch.start()
    watch.start()
    (observe,) = attached
    observe(1, 2048, 10_000, 512)
    assert said == ["cuda:1 could not give 2,048 bytes: 10,000 allocated, 512 free"]
    watch.stop()
    observe(1, 2048, 10_000, 512)
    assert len(said) == 1
