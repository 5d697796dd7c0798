"""Tabular classifier with few noisy examples; the best epoch on validation is restored for the test."""

import copy
import sys

import torch
from torch import nn

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(3)


def clinic(n, generator):
    """Ten measurements; a quarter of the diagnoses are wrong."""
    x = torch.randn(n, 10, generator=generator)
    score = 1.2 * x[:, 0] - x[:, 1] + x[:, 2] * x[:, 3]
    y = (score > 0).long()
    flip = torch.rand(n, generator=generator) < 0.25
    return x, torch.where(flip, 1 - y, y)


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y).item()
        accuracy = (logits.argmax(1) == y).float().mean().item()
    return loss, accuracy


def main():
    generator = torch.Generator().manual_seed(0)
    x, y = clinic(400, generator)
    val_x, val_y = clinic(800, generator)
    test_x, test_y = clinic(2000, generator)

    model = nn.Sequential(nn.Linear(10, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    best_loss, best_epoch, best_state = float("inf"), -1, None
    for epoch in range(30):
        model.train()
        order = torch.randperm(len(x))
        for batch in order.split(50):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
        val_loss, val_acc = evaluate(model, val_x, val_y)
        if val_loss < best_loss:
            best_loss, best_epoch = val_loss, epoch
            best_state = copy.deepcopy(model.state_dict()) if FIXED else model.state_dict()
        if epoch % 5 == 0:
            print(f"epoch {epoch}  train {loss.item():.3f}  val {val_loss:.3f}  acc {val_acc:.3f}")

    model.load_state_dict(best_state)
    test_loss, test_acc = evaluate(model, test_x, test_y)
    print(f"best epoch {best_epoch} with val loss {best_loss:.3f}")
    print(f"final test loss {test_loss:.3f}  acc {test_acc:.3f}")


if __name__ == "__main__":
    main()
