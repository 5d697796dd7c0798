"""Synthetic data and a training loop shared by the faulty trainings."""

from collections.abc import Iterable, Iterator

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import Optimizer

Batch = tuple[torch.Tensor, torch.Tensor]


def classifier(width: int = 32) -> nn.Sequential:
    """Return a classifier with 16 features and 4 classes."""
    return nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, 4))


def points(steps: int = 120, *, size: int = 64, features: int = 16, spread: float = 1.5) -> Iterator[Batch]:
    """Yield batches of points around the centres of 4 classes: inputs ``(size, features)`` and labels ``(size,)``."""
    centres = torch.randn(4, features)
    for _ in range(steps):
        labels = torch.randint(4, (size,))
        yield centres[labels] + spread * torch.randn(size, features), labels


def images(steps: int, *, size: int = 50) -> Iterator[Batch]:
    """Yield batches of images with one bright quarter: 0 to 255 ``(size, 3, 8, 8)``, and its index ``(size,)``."""
    for _ in range(steps):
        labels = torch.randint(4, (size,))
        pixels = 60.0 + 30.0 * torch.randn(size, 3, 8, 8)
        for image, label in zip(pixels, labels.tolist(), strict=True):
            row, column = 4 * (label // 2), 4 * (label % 2)
            image[:, row : row + 4, column : column + 4] += 90.0
        yield pixels.clamp(0, 255), labels


def fit(model: nn.Module, optimizer: Optimizer, batches: Iterable[Batch]) -> None:
    """Train with a correct loop."""
    for inputs, labels in batches:
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def validate(model: nn.Module, batches: Iterable[Batch]) -> float:
    """Return the mean loss on validation batches."""
    model.eval()
    losses = [F.cross_entropy(model(inputs), labels).item() for inputs, labels in batches]
    model.train()
    return sum(losses) / len(losses)
