"""A model on two ranks: healthy replicas, drifting ones (only rank 1 changes a weight at step 50), sharded or bare.

Averaged by hand are the gradients of ``averaged``, and of ``unequal``, where each rank begins with other weights.
"""

import sys

import torch
import torch.distributed as dist
from gloo import destroy_process_group
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    kind = sys.argv[1]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(3 + (dist.get_rank() if kind == "unequal" else 0))
    model: nn.Module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    weight = model[0].weight
    if kind == "sharded":
        fully_shard(model)
    elif kind not in ("bare", "averaged", "unequal"):
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(110):
        if step == 50 and kind == "drifting" and dist.get_rank() == 1:
            with torch.no_grad():
                weight.add_(0.01)
        loss = model(torch.randn(8, 4, generator=generator)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        if kind in ("averaged", "unequal"):
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        optimizer.step()
    destroy_process_group()


if __name__ == "__main__":
    main()
