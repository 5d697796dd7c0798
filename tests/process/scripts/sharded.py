"""A rank of a training whose parameters, gradients and optimizer are sharded over all ranks; tells what it clipped."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main() -> None:
    (folder,) = sys.argv[1:]
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    norms, moments = [], []
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(3, 4)).pow(2).mean().backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1).full_tensor()))
        kept = optimizer.state.get(model[0].weight)
        moments.append(kept["exp_avg"].to_local().norm().item() if kept else None)
        optimizer.step()
    with open(os.path.join(folder, f"rank{dist.get_rank()}.json"), "w") as file:
        json.dump({"norms": norms, "moments": moments}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
