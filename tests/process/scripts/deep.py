"""A deep network with fast steps; capturing all of its tensors at every step is expensive.

Under torchrun it is data-parallel on gloo, with different data on every rank.
"""

from __future__ import annotations

import argparse
import hashlib
import os

import torch
import torch.distributed as dist
from gloo import destroy_process_group
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--depth", type=int, default=40)
    parser.add_argument("--width", type=int, default=8)
    given = parser.parse_args()
    torch.manual_seed(3)
    width = given.width
    hidden = [layer for _ in range(given.depth) for layer in (torch.nn.Linear(width, width), torch.nn.Tanh())]
    model: torch.nn.Module = torch.nn.Sequential(*hidden, torch.nn.Linear(width, 1))
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
        model = DistributedDataParallel(model)
        torch.manual_seed(4 + dist.get_rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(given.steps):
        inputs = torch.randn(4, width)
        loss = torch.nn.functional.mse_loss(model(inputs), inputs[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    digest = hashlib.sha256(repr(losses).encode())
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    print(digest.hexdigest())
    if dist.is_initialized():
        destroy_process_group()


if __name__ == "__main__":
    main()
