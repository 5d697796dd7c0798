"""A model trained on two ranks with every kind of sharding in sequence; every rank writes a diary.

Usage: sharded.py FOLDER; writes ``FOLDER/<kind>_<rank>.json`` with the shards of the rank. With ``FOLDER STEP``: FSDP2
only, with a NaN loss on rank 1 at that step.
"""

import gc
import random
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from diary import Diary
from gloo import destroy_process_group
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

EACH = 6
"""Number of steps of one training."""


def net() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01)


def plain(net: nn.Sequential) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = DistributedDataParallel(net)
    return model, adam(model)


def sharded(net: nn.Sequential) -> tuple[nn.Module, torch.optim.Optimizer]:
    for layer in (net[0], net[2], net):
        fully_shard(layer)
    return net, adam(net)


def flat(net: nn.Sequential) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = FullyShardedDataParallel(net, device_id=torch.device("cpu"))
    return model, adam(model)


def original(net: nn.Sequential) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = FullyShardedDataParallel(net, device_id=torch.device("cpu"), use_orig_params=True)
    return model, adam(model)


def redundant(net: nn.Sequential) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = DistributedDataParallel(net)
    return model, ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)


WAYS: dict[str, Callable[[nn.Sequential], tuple[nn.Module, torch.optim.Optimizer]]] = {
    train_kind.__name__: train_kind for train_kind in (sharded, flat, original, plain, redundant)
}


def local(tensor: torch.Tensor) -> torch.Tensor:
    to_local = getattr(tensor.detach(), "to_local", None)
    return to_local() if to_local is not None else tensor.detach()


def spoken(name: str) -> str:
    return name.replace("_fsdp_wrapped_module.", "").removeprefix("module.")


def note(diary: Diary, step: int, model: nn.Module) -> None:
    """Record the shards of this rank just before the optimizer step."""
    for name, parameter in model.named_parameters():
        diary.weights.setdefault(spoken(name), {})[step] = local(parameter).flatten().tolist()
        if parameter.grad is not None:
            diary.gradients.setdefault(spoken(name), {})[step] = local(parameter.grad).flatten().tolist()


def train(diary: Diary, way: str, first: int, rank: int) -> nn.Module:
    model, optimizer = WAYS[way](net())
    generator = torch.Generator().manual_seed(rank)
    for step in range(first, first + EACH):
        loss = model(torch.randn(8, 4, generator=generator)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        diary.loss(step, loss)
        note(diary, step, model)
        optimizer.step()
    return model


def collectives() -> int:
    """Return the number of collectives of this process; if the ranks differed, one would wait forever."""
    return int(dist.distributed_c10d._get_default_group()._get_sequence_number_for_group())


def break_down(bad_step: int, rank: int) -> None:
    model, optimizer = sharded(net())
    for step in range(3000):
        loss = model(torch.randn(8, 4)).pow(2).mean()
        if rank == 1 and step == bad_step:
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.02)


def main() -> None:
    warnings.simplefilter("ignore", FutureWarning)  # deprecated wrappers
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    folder = Path(sys.argv[1])
    if len(sys.argv) > 2:
        break_down(int(sys.argv[2]), rank)
    else:
        random.seed(1)
        for index, way in enumerate(WAYS):
            diary = Diary()
            model = train(diary, way, index * EACH, rank)
            diary.facts["collectives"] = collectives()
            weights = nn.ParameterList(nn.Parameter(local(parameter)) for parameter in model.parameters())
            diary.write(folder / f"{way}_{rank}.json", [weights])
            del model
            gc.collect()
    destroy_process_group()


if __name__ == "__main__":
    main()
