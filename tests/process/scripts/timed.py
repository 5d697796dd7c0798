"""Trainings with known phase times; they write the times measured by torch.profiler: ``timed.py KIND FOLDER``."""

import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.autograd.profiler import record_function
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, Dataset

STEPS = 12
FIRST = 2
"""Number of warm-up steps, in which the profiler and Leadline are set up."""
SLOW = 0.03


class Place:
    step = 0


class Samples(Dataset):
    def __init__(self, seconds, count):
        self.seconds, self.count = seconds, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.full((64,), index / self.count)


def named(name):
    return record_function(name if Place.step >= FIRST else f"{name} at first")


def perceptron(width=512):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 8))


def batches(loader):
    """Yield the batches of a loader, with the wait recorded under a name."""
    iterator = iter(loader)
    while True:
        with named("data"):
            batch = next(iterator, None)
        if batch is None:
            return
        yield batch
        Place.step += 1


def train_on(batch, model, optimizer, micro=1):
    for part in batch.chunk(micro):
        with named("forward"):
            loss = model(part).pow(2).mean()
        with named("backward"):
            loss.backward()
    update(optimizer)


def update(optimizer):
    with named("optimizer"):
        optimizer.step()
    with named("between"):
        optimizer.zero_grad()


def loader_bound(folder):
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in batches(DataLoader(Samples(SLOW / 8, 8 * STEPS), batch_size=8)):
        train_on(batch, model, optimizer)


def python_bound(folder):
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in batches(DataLoader(Samples(0, 8 * STEPS), batch_size=8)):
        with named("forward"):
            loss = model(batch).pow(2).mean()
        with named("backward"):
            loss.backward()
        with named("other"):
            count(SLOW)
        update(optimizer)


def count(seconds):
    """Spend time in pure Python."""
    end = time.perf_counter() + seconds
    total = 0
    while time.perf_counter() < end:
        total += sum(range(1000))
    return total


def computing(folder):
    model = perceptron(1024)
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in batches(DataLoader(Samples(0, 64 * STEPS), batch_size=64)):
        train_on(batch, model, optimizer)


def checkpointing(folder):
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    large = torch.zeros(4_000_000)
    for index, batch in enumerate(batches(DataLoader(Samples(0.001, 8 * STEPS), batch_size=8))):
        if index % 4 == 3:
            with named("checkpoint"):
                torch.save({"model": model.state_dict(), "large": large}, Path(folder, "saved.pt"))
        train_on(batch, model, optimizer)


def accumulating(folder):
    model = perceptron(1024)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in batches(DataLoader(Samples(0.001, 16 * STEPS), batch_size=16)):
        train_on(batch, model, optimizer, micro=4)


def adversarial(folder):
    models = [perceptron(), perceptron()]
    optimizers = [torch.optim.AdamW(model.parameters()) for model in models]
    for batch in batches(DataLoader(Samples(0.001, 8 * STEPS), batch_size=8)):
        for model, optimizer in zip(reversed(models), reversed(optimizers), strict=True):
            train_on(batch, model, optimizer)


def evaluating(folder):
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        model.train()
        for batch in batches(DataLoader(Samples(0.002, 8 * STEPS // 3), batch_size=8)):
            train_on(batch, model, optimizer)
        model.eval()
        with torch.no_grad():
            for batch in DataLoader(Samples(0.01, 8), batch_size=4):
                with named("eval"):
                    model(batch).pow(2).mean()


def ranks(folder):
    """Two ranks, the second of which loads slowly; gradients are reduced by hand, then by DistributedDataParallel."""
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    model = perceptron(64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in batches(DataLoader(Samples(rank * SLOW / 8, 8 * STEPS), batch_size=8)):
        with named("forward"):
            loss = model(batch).pow(2).mean()
        with named("backward"):
            loss.backward()
        with named("collective"):
            for parameter in model.parameters():
                distributed.all_reduce(parameter.grad)
        update(optimizer)
    distributed.barrier()


def replicas(folder):
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    model = nn.parallel.DistributedDataParallel(perceptron(64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in batches(DataLoader(Samples(rank * SLOW / 8, 8 * STEPS), batch_size=8)):
        train_on(batch, model, optimizer)
    distributed.barrier()


KINDS = {
    train_kind.__name__: train_kind
    for train_kind in (
        loader_bound,
        python_bound,
        computing,
        checkpointing,
        accumulating,
        adversarial,
        evaluating,
        ranks,
        replicas,
    )
}


def main(kind, folder):
    torch.set_num_threads(1)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        KINDS[kind](folder)
    found = {event.key: event.cpu_time_total / 1e6 for event in profiler.key_averages() if event.key.isidentifier()}
    rank = os.environ.get("RANK", "0")
    Path(folder, f"{kind}_{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
