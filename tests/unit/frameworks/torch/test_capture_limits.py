"""Limits of capture: the writer thread's share of the interpreter, and samples in place of full copies."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import leadline
from leadline.torch import Hook


def net() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(100, 100)


def test_beyond_the_memory_limit_the_update_ratio_uses_a_sample(tmp_path: Path) -> None:
    hook = Hook(out=str(tmp_path), name="run", preset=None, capture=["weights:every=1,statistics=update_ratio"])
    assert hook.session is not None
    hook.session.recorder._device_bytes = 0
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with hook:
        model(torch.randn(8, 100)).pow(2).mean().backward()
        before = model.weight.detach().clone()
        optimizer.step()
    exact = ((model.weight.detach() - before).norm() / before.norm()).item()
    ratio = leadline.open_run(hook.run).tensor("weight").statistic("update_ratio", 0)
    assert ratio == pytest.approx(exact, rel=0.1)
    assert ratio != exact


def test_the_writer_thread_leaves_the_interpreter_to_the_training(tmp_path: Path) -> None:
    """Measured in CPU time, which does not depend on the load of the machine."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Hook(out=str(tmp_path), name="run", capture=["all:every=1"]):
        start = time.thread_time()
        for _ in range(400):
            optimizer.zero_grad()
            model(torch.ones(8, 100)).pow(2).mean().backward()
            optimizer.step()
        training_seconds = time.thread_time() - start
        (writer,) = (thread for thread in threading.enumerate() if thread.name == "leadline-writer")
        assert writer.ident is not None
        writer_seconds = time.clock_gettime(time.pthread_getcpuclockid(writer.ident))
    assert writer_seconds < training_seconds / 4
