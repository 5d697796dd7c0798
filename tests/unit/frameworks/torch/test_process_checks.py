"""Checks of the training process: its memory, and the replicas of its models."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

import pytest
import torch
from torch import nn

from leadline.frameworks.process_memory import process_memory
from leadline.frameworks.torch.diagnose.process_checks import (
    count_replicas,
    device_memory,
    is_wrapper_never_called,
)
from leadline.records.names import PROCESS_MEMORY


def resident_kb() -> int:
    (found,) = re.findall(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found)


def test_resident_memory_is_that_of_the_process_and_grows_with_it() -> None:
    before = process_memory()["process/rss_bytes"]
    assert before == pytest.approx(resident_kb() * 1024, rel=0.05)
    with mmap.mmap(-1, 64 << 20) as kept:  # the allocator might give memory that was freed before
        kept.write(b"x" * len(kept))
        assert process_memory()["process/rss_bytes"] - before > 0.9 * len(kept)


def test_the_names_are_those_that_the_rule_reads() -> None:
    assert set(process_memory() | device_memory()) <= set(PROCESS_MEMORY)


@pytest.mark.parametrize("missing", ["/proc/none", "/"])
def test_memory_that_cannot_be_read_is_absent(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr("leadline.frameworks.process_memory._STATM", missing)
    assert "process/rss_bytes" not in process_memory()


def test_a_single_process_has_no_replicas(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    assert count_replicas([model], model.parameters()) is None
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        assert count_replicas([model], model.parameters()) is None
    finally:
        torch.distributed.destroy_process_group()


def test_a_wrapper_that_was_never_called_is_noted_until_it_is(tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        wrapper = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
        wrapper.module(torch.ones(1, 2)).sum().backward()
        assert is_wrapper_never_called([wrapper])
        wrapper(torch.ones(1, 2)).sum().backward()
        assert not is_wrapper_never_called([wrapper])
        assert not is_wrapper_never_called([wrapper.module])
    finally:
        torch.distributed.destroy_process_group()
