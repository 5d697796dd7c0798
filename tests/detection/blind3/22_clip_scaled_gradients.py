"""Half-precision training with a gradient scaler and clipped gradients."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)


def sequences(n, generator):
    """Which of four words occurs most often."""
    y = torch.randint(0, 4, (n,), generator=generator)
    words = torch.randint(0, 20, (n, 24), generator=generator)
    return torch.where(torch.rand(n, 24, generator=generator) < 0.3, y[:, None], words), y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 32)
        self.body = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU())
        self.head = nn.Linear(64, 4)

    def forward(self, tokens):
        return self.head(self.body(self.embed(tokens)).mean(1))


def main():
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(TensorDataset(*sequences(1600, generator)), batch_size=32, shuffle=True)
    test_x, test_y = sequences(800, generator)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for epoch in range(10):
        model.train()
        total = 0.0
        for tokens, labels in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(tokens), labels)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            if FIXED:
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            accuracy = (model(test_x).argmax(1) == test_y).float().mean().item()
        print(f"epoch {epoch}  loss {total / len(loader):.3f}  test acc {accuracy:.3f}")


if __name__ == "__main__":
    main()
