"""A training that is stopped half-way and goes on from its checkpoint."""

import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
EPOCHS, STOP = 16, 8


def waves(n, generator):
    """One of five frequencies in noise."""
    y = torch.randint(0, 5, (n,), generator=generator)
    phase = 6.28 * torch.rand(n, 1, generator=generator)
    time = torch.linspace(0, 1, 64)[None]
    signal = torch.sin(6.28 * (2 + 2 * y[:, None]) * time + phase)
    return (signal + 1.3 * torch.randn(n, 64, generator=generator))[:, None], y


def build(steps):
    model = nn.Sequential(
        nn.Conv1d(1, 16, 9, 2),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Conv1d(16, 32, 5, 2),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(4),
        nn.Flatten(),
        nn.Linear(128, 5),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / (0.2 * steps)) * max(0.0, 1 - step / steps)
    )
    return model, optimizer, schedule


def run(first, last, loader, validation, path, resume):
    model, optimizer, schedule = build(EPOCHS * len(loader))
    if resume:
        checkpoint = torch.load(path)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        if FIXED:
            schedule.load_state_dict(checkpoint["schedule"])
        print(f"resumed at epoch {first}")
    val_x, val_y = validation
    for epoch in range(first, last):
        model.train()
        total = 0.0
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            logits = model(val_x)
        print(
            f"epoch {epoch}  loss {total / len(loader):.3f}  val {F.cross_entropy(logits, val_y).item():.3f}"
            f"  acc {(logits.argmax(1) == val_y).float().mean().item():.3f}"
        )
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
    torch.save(state, path)


def main():
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(TensorDataset(*waves(800, generator)), batch_size=32, shuffle=True)
    validation = waves(500, generator)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        run(0, STOP, loader, validation, path, resume=False)
        run(STOP, EPOCHS, loader, validation, path, resume=True)


if __name__ == "__main__":
    main()
