"""Data-parallel training on two ranks; only rank 0 evaluates, every tenth step; NaN on rank 1 at a given step."""

import sys
import time

import torch
import torch.distributed as dist
from gloo import destroy_process_group
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, bad_step = dist.get_rank(), int(sys.argv[1])
    torch.manual_seed(3)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(5)
    for step in range(35 if bad_step < 0 else 3000):
        loss = functional.mse_loss(model(torch.randn(8, 4, generator=generator)), torch.zeros(8, 2))
        if rank == 1 and step == bad_step:
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9 and rank == 0:
            model.eval()
            with torch.no_grad():
                for batch in range(3):
                    value = functional.mse_loss(model.module(torch.full((4, 4), float(batch))), torch.zeros(4, 2))
                    print("eval", value.item(), flush=True)
            model.train()
        if bad_step >= 0:
            time.sleep(0.02)
    destroy_process_group()


if __name__ == "__main__":
    main()
