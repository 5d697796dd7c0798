"""Trainings with one known bottleneck, and healthy ones: ``bound.py KIND``."""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
from gloo import destroy_process_group
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, TensorDataset

BATCH = 64


class Slow(Dataset):
    """A dataset that loads slowly."""

    def __len__(self):
        return BATCH * 90

    def __getitem__(self, index):
        if index % BATCH == 0:
            time.sleep(0.03)
        return torch.linspace(-1, 1, 64) + index % 10 / 3, index % 10


def in_memory(steps):
    torch.manual_seed(0)
    labels = torch.randint(0, 10, (BATCH * steps,))
    return TensorDataset(torch.randn(BATCH * steps, 64) + labels[:, None] / 3, labels)


def perceptron(width=256):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def train(model, data, after=lambda step, loss: None, during=lambda: None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for step, (inputs, labels) in enumerate(DataLoader(data, batch_size=BATCH)):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        during()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after(step, loss)


def loader():
    train(perceptron(), Slow())


def plain(model, load, after=lambda: None, steps=60):
    """Train without a data loader."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for _ in range(steps):
        inputs, labels = load()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after()


def batch():
    labels = torch.randint(0, 10, (BATCH,))
    return torch.randn(BATCH, 64) + labels[:, None] / 3, labels


def sleeping_load():
    def load():
        time.sleep(0.05)
        return batch()

    plain(perceptron(), load)


def numpy_load():
    def load():
        rows = np.random.default_rng(0).normal(size=(BATCH, 10_000))
        return torch.from_numpy(np.sort(rows)[:, :64].astype(np.float32)), torch.randint(0, 10, (BATCH,))

    plain(perceptron(), load)


def computing():
    plain(perceptron(2048), batch, steps=200)  # beside the captures of a start


def crowded():
    """Compute on a processor that three other processes use as well."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    spin = f"import os\nwhile os.getppid() == {os.getpid()}: pass"
    others = [subprocess.Popen([sys.executable, "-S", "-E", "-c", spin]) for _ in range(3)]
    try:
        plain(perceptron(1024), batch)
    finally:
        for other in others:
            other.kill()
            other.wait()


def checkpointing():
    model = perceptron(1024)
    large = torch.zeros(8_000_000)
    with tempfile.TemporaryFile() as file:

        def save():
            file.seek(0)
            torch.save({"model": model.state_dict(), "large": large}, file)

        plain(model, batch, after=save)


class Blocked(nn.Module):
    """A model that waits within its forward pass."""

    def __init__(self):
        super().__init__()
        self.layers = perceptron()

    def forward(self, inputs):
        time.sleep(0.05)
        return self.layers(inputs)


def blocked_forward():
    plain(Blocked(), batch)


def count(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(1000))


def python():
    train(perceptron(), in_memory(90), after=lambda step, loss: count(0.03))


def leak():
    kept = []

    def keep(step, loss):
        kept.append(torch.ones(250_000))
        time.sleep(0.01)

    train(perceptron(), in_memory(300), after=keep)


def periodic():
    train(perceptron(1024), in_memory(760), after=lambda step, loss: time.sleep(0.7 if step % 40 == 39 else 0.0))


def straggler():
    distributed.init_process_group("gloo")
    slow = distributed.get_rank() == 1
    train(DistributedDataParallel(perceptron(512)), in_memory(90), during=lambda: time.sleep(0.03 if slow else 0.0))
    destroy_process_group()


def healthy_ranks():
    distributed.init_process_group("gloo")
    train(DistributedDataParallel(perceptron(1024)), in_memory(200))
    destroy_process_group()


def healthy_mlp():
    train(perceptron(2048), in_memory(400))


def healthy_cnn():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4096, 10),
    )
    train(model, in_memory(250))


if __name__ == "__main__":
    torch.set_num_threads(1)
    {
        train_kind.__name__: train_kind
        for train_kind in (
            loader,
            python,
            leak,
            periodic,
            straggler,
            sleeping_load,
            numpy_load,
            computing,
            crowded,
            checkpointing,
            blocked_forward,
            healthy_ranks,
            healthy_mlp,
            healthy_cnn,
        )
    }[sys.argv[1]]()
