"""Training of a small residual network that waits at a given step and writes its results.

profiled.py OUT STEPS [WAIT_AT [--compile | --ranks | --paced]]: from step WAIT_AT on it continues only once OUT.go
exists. With ``--paced`` each step waits until all profiles are written.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time

import torch
from torch import nn


class Block(nn.Module):
    """A residual block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.bn1(self.conv1(x)) + x)


class Net(nn.Module):
    """Two blocks and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(Block(4), Block(4))
        self.head = nn.Linear(4 * 64, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer1(x).flatten(1))


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(out: str, steps: int, wait_at: int, *how: str) -> None:
    torch.manual_seed(0)
    model = Net()
    if "--ranks" in how:
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
        out = f"{out}-{torch.distributed.get_rank()}"
    if "--compile" in how:
        model.compile(backend="eager")
    data = torch.utils.data.TensorDataset(torch.randn(64, 4, 8, 8), torch.randint(0, 5, (64,)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses, memory, step = [], [], 0
    while step < steps:
        for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
            if step >= steps:
                break
            if step == wait_at:
                open(f"{sys.argv[1]}.waits", "w").close()
            while step >= wait_at and not os.path.exists(f"{sys.argv[1]}.go"):
                time.sleep(0.3)
                if "--ranks" not in how:
                    break  # continue slowly: requests are handled at step boundaries
            while "--paced" in how and any(thread.name == "leadline-profiles" for thread in threading.enumerate()):
                time.sleep(0.01)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            memory.append(resident_bytes())
            step += 1
    digest = hashlib.sha256(
        b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    ).hexdigest()
    found = {"digest": digest, "losses": losses, "memory": memory, "random": torch.rand(1).item()}
    found["hooks"] = len(torch.nn.modules.module._global_forward_hooks)
    found["profile"] = sys.getprofile() is not None or torch.autograd._profiler_enabled()
    with open(f"{out}.json", "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int((*sys.argv[3:], "1000000")[0]), *sys.argv[4:])
