"""A model trained on four ranks, sharded over all of them, over pairs of replicas, and not at all.

Usage: whole_tensors.py FOLDER; rank 0 writes ``FOLDER/<kind>.pt`` with the whole weights and gradients of each step.
"""

import gc
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from gloo import destroy_process_group
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

EACH = 3
"""Number of steps of one training."""


def net(width: int = 10) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2))  # neither 10 nor 2 rows divide by 4


def sharded() -> nn.Module:
    return fully_shard(net(), mesh=init_device_mesh("cpu", (4,)))


def replicated_shards() -> nn.Module:
    return fully_shard(net(), mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")))


def tensor_parallel() -> nn.Module:
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return parallelize_module(net(8), init_device_mesh("cpu", (4,)), plan)


def plain() -> nn.Module:
    return DistributedDataParallel(net())


def whole(tensor: torch.Tensor) -> torch.Tensor:
    full_tensor = getattr(tensor.detach(), "full_tensor", None)
    return (full_tensor() if full_tensor is not None else tensor.detach()).clone()


def train(kind: Callable[[], nn.Module], first: int, rank: int) -> dict[str, dict[int, torch.Tensor]]:
    model, told = kind(), dict[str, dict[int, torch.Tensor]]()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(0 if kind is tensor_parallel else rank)
    for step in range(first, first + EACH):
        loss = model(torch.randn(8, 4, generator=generator)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        for name, parameter in model.named_parameters():
            name = name.removeprefix("module.")
            assert parameter.grad is not None
            told.setdefault(name, {})[step] = whole(parameter)
            told.setdefault(f"gradient/{name}", {})[step] = whole(parameter.grad)
        optimizer.step()
    return told


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for index, kind in enumerate((sharded, replicated_shards, tensor_parallel, plain)):
        told = train(kind, index * EACH, rank)
        gc.collect()  # the names of a model that is still alive are taken
        if rank == 0:
            torch.save(told, Path(sys.argv[1]) / f"{kind.__name__}.pt")
    destroy_process_group()


main()
