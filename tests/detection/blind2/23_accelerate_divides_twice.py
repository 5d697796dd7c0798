"""Accelerate with gradient accumulation, moved over from a plain loop."""

import sys

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
set_seed(0)

ACCUMULATE = 8


def digits(n, generator):
    """Seven-segment digits, shifted and noisy."""
    segments = [
        "1110111",
        "0010010",
        "1011101",
        "1011011",
        "0111010",
        "1101011",
        "1101111",
        "1010010",
        "1111111",
        "1111011",
    ]
    boxes = [(0, 1, 1, 5), (1, 5, 0, 1), (1, 5, 5, 6), (5, 6, 1, 5), (6, 10, 0, 1), (6, 10, 5, 6), (10, 11, 1, 5)]
    glyphs = torch.zeros(10, 11, 6)
    for digit, code in enumerate(segments):
        for on, (top, bottom, left, right) in zip(code, boxes):
            if on == "1":
                glyphs[digit, top:bottom, left:right] = 1
    y = torch.randint(0, 10, (n,), generator=generator)
    images = torch.zeros(n, 1, 14, 12)
    for i in range(n):
        dy, dx = (
            torch.randint(0, 4, (1,), generator=generator).item(),
            torch.randint(0, 7, (1,), generator=generator).item(),
        )
        images[i, 0, dy : dy + 11, dx : dx + 6] = glyphs[y[i]]
    return images + 0.5 * torch.randn(images.shape, generator=generator), y


def main():
    accelerator = Accelerator(gradient_accumulation_steps=ACCUMULATE, cpu=True)
    generator = torch.Generator().manual_seed(0)
    train = DataLoader(TensorDataset(*digits(2400, generator)), batch_size=8, shuffle=True)
    val = DataLoader(TensorDataset(*digits(500, generator)), batch_size=100)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 42, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    model, optimizer, train, val = accelerator.prepare(model, optimizer, train, val)
    for epoch in range(3):
        model.train()
        total = 0.0
        for x, y in train:
            with accelerator.accumulate(model):
                loss = F.cross_entropy(model(x), y)
                total += loss.item()
                accelerator.backward(loss if FIXED else loss / ACCUMULATE)
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        right = []
        with torch.no_grad():
            for x, y in val:
                right.append(accelerator.gather_for_metrics(model(x).argmax(1) == y))
        accuracy = torch.cat(right).float().mean().item()
        accelerator.print(f"epoch {epoch}  train {total / len(train):.3f}  val acc {accuracy:.3f}")
    accelerator.print(f"final val acc {accuracy:.3f}")


if __name__ == "__main__":
    main()
