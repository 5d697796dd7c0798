"""Data-parallel training on two ranks; one rank's loss becomes NaN at a step (-1: never).

With ``alone``: the same training in one process; prints the digest of its weights.
"""

import hashlib
import sys
import time

import torch
import torch.distributed as dist
from gloo import destroy_process_group
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(model: nn.Module, rank: int, bad_step: int, steps: int) -> str:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(5)
    for step in range(steps):
        loss = model(torch.randn(8, 4, generator=generator)).pow(2).mean()
        if rank == 1 and step == bad_step:
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if bad_step >= 0:
            time.sleep(0.02)
    parts = [parameter.detach().numpy().tobytes() for parameter in model.parameters()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1] == "alone":
        print(train(net(), 0, -1, 60))
        return
    bad_step = int(sys.argv[1])
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    digest = train(DistributedDataParallel(net()), rank, bad_step, 60 if bad_step < 0 else 3000)
    with open(f"digest-{rank}", "w") as file:
        file.write(digest)
    destroy_process_group()


if __name__ == "__main__":
    main()
