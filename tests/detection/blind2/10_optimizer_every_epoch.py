"""A small image classifier with a rate that falls by hand each epoch."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)


def textures(n, generator):
    """Stripes of five directions under noise."""
    y = torch.randint(0, 5, (n,), generator=generator)
    angle = y * torch.pi / 5 + 0.1 * torch.randn(n, generator=generator)
    phase = torch.rand(n, generator=generator) * 6.28
    axis = torch.arange(12.0)
    wave = angle.cos()[:, None, None] * axis[None, None, :] + angle.sin()[:, None, None] * axis[None, :, None]
    images = torch.sin(1.3 * wave + phase[:, None, None])
    return (images + 1.0 * torch.randn(n, 12, 12, generator=generator))[:, None], y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 12, 5), nn.Conv2d(12, 16, 3)
        self.fc = nn.Linear(16 * 9, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return self.fc(x.flatten(1))


def train_epoch(model, loader, lr, optimizer=None):
    if optimizer is None:
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.95, weight_decay=1e-4)
    for group in optimizer.param_groups:
        group["lr"] = lr
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def main():
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(TensorDataset(*textures(640, generator)), batch_size=64, shuffle=True)
    val_x, val_y = textures(1000, generator)
    model = Net()
    kept = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.95, weight_decay=1e-4) if FIXED else None
    for epoch in range(15):
        loss = train_epoch(model, loader, 0.004 * 0.95**epoch, kept)
        model.eval()
        with torch.no_grad():
            logits = model(val_x)
            val_loss = F.cross_entropy(logits, val_y).item()
            accuracy = (logits.argmax(1) == val_y).float().mean().item()
        if epoch % 3 == 2:
            print(f"epoch {epoch}  train {loss:.3f}  val {val_loss:.3f}  acc {accuracy:.3f}")
    print(f"final val loss {val_loss:.3f}  acc {accuracy:.3f}")


if __name__ == "__main__":
    main()
