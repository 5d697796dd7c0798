"""Train an image classifier and evaluate the exponential moving average of its weights."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)


def shapes(n, generator):
    """Crosses, squares and bars at random places of bright photos."""
    y = torch.randint(0, 3, (n,), generator=generator)
    images = 3.0 + 0.8 * torch.randn(n, 1, 16, 16, generator=generator)
    for i in range(n):
        r, c = torch.randint(3, 13, (2,), generator=generator).tolist()
        if y[i] == 0:
            images[i, 0, r, c - 3 : c + 4] += 2
            images[i, 0, r - 3 : r + 4, c] += 2
        elif y[i] == 1:
            images[i, 0, r - 2 : r + 2, c - 2 : c + 2] += 2
        else:
            images[i, 0, r, :] += 1.2
    return images, y


def conv(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2))


class EMA:
    def __init__(self, model, decay=0.98):
        self.module = copy.deepcopy(model).eval()
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for average, value in zip(self.module.parameters(), model.parameters()):
            average.mul_(self.decay).add_(value, alpha=1 - self.decay)
        if FIXED:
            for average, value in zip(self.module.buffers(), model.buffers()):
                average.copy_(value)


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def main():
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(TensorDataset(*shapes(960, generator)), batch_size=32, shuffle=True)
    val_x, val_y = shapes(500, generator)
    model = nn.Sequential(conv(1, 16), conv(16, 24), nn.Flatten(), nn.Linear(24 * 16, 3))
    ema = EMA(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(10):
        model.train()
        total = 0.0
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema.update(model)
            total += loss.item()
        print(
            f"epoch {epoch}  loss {total / len(loader):.3f}  val {accuracy(model, val_x, val_y):.3f}"
            f"  val (EMA) {accuracy(ema.module, val_x, val_y):.3f}"
        )


if __name__ == "__main__":
    main()
