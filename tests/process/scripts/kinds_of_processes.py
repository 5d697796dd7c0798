"""Kinds of training with several processes or threads."""

import gc
import os
import random
import threading
from collections.abc import Iterable
from pathlib import Path

import torch
from diary import STEPS, Diary, kind, net, plain_step, squares
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@kind
def spawn_loading(diary: Diary) -> Iterable[nn.Module]:
    """Spawned loader workers import PyTorch again, and do not train."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(6 * STEPS, 4), torch.randn(6 * STEPS, 3))
    loader = DataLoader(data, batch_size=6, num_workers=1, multiprocessing_context="spawn")
    for step, (inputs, targets) in enumerate(loader):
        plain_step(diary, step, model, optimizer, (model(inputs) - targets).pow(2).mean())
    return [model]


def train_apart(index: int, name: str, prefix: str = "") -> None:
    """A whole training with its own diary."""
    torch.set_num_threads(1)
    torch.manual_seed(index)
    random.seed(index)
    diary = Diary()
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = squares(model)
        loss.backward()
        diary.loss(step, loss)
        diary.update(step, model, prefix=prefix)
        optimizer.step()
    diary.write(Path(f"{name}_{index}.json"), [model])


@kind
def spawned(diary: Diary) -> None:
    torch.multiprocessing.spawn(train_apart, ("spawned",), nprocs=2)


@kind
def served(diary: Diary) -> None:
    process = torch.multiprocessing.get_context("forkserver").Process(target=train_apart, args=(0, "served"))
    process.start()
    process.join()
    assert process.exitcode == 0


@kind
def forking(diary: Diary) -> Iterable[nn.Module]:
    """The process forks during the training; the child trains another model besides the inherited one."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        if step == 5:
            child = os.fork()
            if not child:
                train_apart(0, "forking", "Sequential_")
                raise SystemExit(0)
            os.waitpid(child, 0)
        plain_step(diary, step, model, optimizer, squares(model))
    return [model]


@kind
def parallel(diary: Diary) -> Iterable[nn.Module]:
    """Without a GPU there are no replicas; names are those of the wrapped model."""
    model = nn.DataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        loss = squares(model)
        optimizer.zero_grad()
        loss.backward()
        diary.loss(step, loss)
        diary.update(step, model.module)
        optimizer.step()
    return [model]


@kind
def collected(diary: Diary) -> Iterable[nn.Module]:
    """Leadline keeps no deleted model or optimizer alive."""
    ends = []
    for attempt in range(3):
        model = net()
        optimizer = torch.optim.Adam(model.parameters())
        for step in range(4):
            plain_step(diary, 4 * attempt + step, model, optimizer, squares(model))
        last = [parameter.detach().clone() for parameter in model.parameters()]
        del model, optimizer
        gc.collect()
        ends.append(sum(type(item) in (nn.Linear, torch.optim.Adam) for item in gc.get_objects()))
    diary.facts["alive"] = ends
    return [nn.ParameterList(nn.Parameter(tensor) for tensor in last)]


@kind
def duet(diary: Diary) -> Iterable[nn.Module]:
    """Two threads train one model each at the same time; the owner of a step is undefined."""
    models = [net(), net()]

    def train(index: int) -> None:
        generator = torch.Generator().manual_seed(index)
        optimizer = torch.optim.SGD(models[index].parameters(), lr=0.1)
        for _ in range(60):
            optimizer.zero_grad()
            models[index](torch.randn(6, 4, generator=generator)).pow(2).mean().backward()
            optimizer.step()

    threads = [threading.Thread(target=train, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return models
