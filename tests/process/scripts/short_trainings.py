"""Short healthy trainings with the default captures and budget: STEPS MILLISECONDS SEEDS FOLDER, each a list.

Each step is made as long as asked by a pause. Trainings whose run is complete are left out.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable

import torch
from healthy_trainings import Attending, blobs, counting
from torch import nn
from torch.nn import functional as F
from watched_runs import is_complete, watched


def classifier(generator: torch.Generator) -> tuple[nn.Module, Callable[[nn.Module], torch.Tensor]]:
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))

    def loss(model: nn.Module) -> torch.Tensor:
        inputs, labels = blobs(32, 16, 4, generator)
        return F.cross_entropy(model(inputs), labels)

    return model, loss


def convolutional(generator: torch.Generator) -> tuple[nn.Module, Callable[[nn.Module], torch.Tensor]]:
    layers = (nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
    model = nn.Sequential(*layers, nn.Linear(128, 2))

    def loss(model: nn.Module) -> torch.Tensor:
        labels = torch.randint(2, (16,), generator=generator)
        images = torch.randn(16, 1, 12, 12, generator=generator)
        images[:, :, :6] += labels.float()[:, None, None, None]
        return F.cross_entropy(model(images), labels)

    return model, loss


def regressor(generator: torch.Generator) -> tuple[nn.Module, Callable[[nn.Module], torch.Tensor]]:
    model = nn.Sequential(nn.Linear(8, 64), nn.SiLU(), nn.Linear(64, 1))

    def loss(model: nn.Module) -> torch.Tensor:
        inputs = torch.randn(32, 8, generator=generator)
        return F.mse_loss(model(inputs), inputs[:, :1].sin() + 0.5 * inputs[:, 1:2])

    return model, loss


def attending(generator: torch.Generator) -> tuple[nn.Module, Callable[[nn.Module], torch.Tensor]]:
    def loss(model: nn.Module) -> torch.Tensor:
        tokens = counting(8, 12, generator)
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    return Attending(), loss


KINDS = (classifier, convolutional, regressor, attending)


def train(kind: Callable[..., tuple[nn.Module, Callable[[nn.Module], torch.Tensor]]], steps: int, ms: int) -> None:
    model, loss_of = kind(torch.Generator().manual_seed(torch.initial_seed()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(steps):
        begun = time.perf_counter()
        optimizer.zero_grad()
        loss_of(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        time.sleep(max(0.0, ms / 1000 - (time.perf_counter() - begun)))


def main() -> None:
    lengths, pauses, seeds = (list(map(int, argument.split(","))) for argument in sys.argv[1:4])
    folder = sys.argv[4]
    torch.set_num_threads(1)
    for kind, steps, ms, seed in itertools.product(KINDS, lengths, pauses, seeds):
        name = f"{kind.__name__}-{steps}x{ms}-{seed}"
        if not is_complete(folder, name):
            torch.manual_seed(seed)
            with watched(folder, name, is_default=True):
                train(kind, steps, ms)
            print(name, flush=True)


if __name__ == "__main__":
    main()
