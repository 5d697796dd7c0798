"""Ticket routing: a short message decides by one keyword which team gets it."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)

VOCAB, LENGTH, TEAMS, MARKER = 120, 24, 8, 1


def messages(n, generator):
    """The team is named by the word after the marker; other team words are noise."""
    x = torch.randint(2, VOCAB, (n, LENGTH), generator=generator)
    place = torch.randint(0, LENGTH - 1, (n,), generator=generator)
    y = torch.randint(0, TEAMS, (n,), generator=generator)
    rows = torch.arange(n)
    x[rows, place] = MARKER
    x[rows, place + 1] = y + 2
    return x, y


class AttentionPooling(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(size, size), nn.Tanh(), nn.Linear(size, 1))

    def forward(self, hidden):
        weights = F.softmax(self.score(hidden), dim=1 if FIXED else 0)
        return (weights * hidden).sum(dim=1)


class Router(nn.Module):
    def __init__(self, size=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, size)
        self.conv = nn.Conv1d(size, size, kernel_size=3, padding=1)
        self.pool = AttentionPooling(size)
        self.head = nn.Linear(size, TEAMS)

    def forward(self, tokens):
        hidden = torch.relu(self.conv(self.embed(tokens).transpose(1, 2))).transpose(1, 2)
        return self.head(self.pool(hidden))


def main():
    generator = torch.Generator().manual_seed(1)
    train_x, train_y = messages(3000, generator)
    val_x, val_y = messages(500, generator)
    model = Router()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(train_x, train_y), batch_size=64, shuffle=True)
    for epoch in range(5):
        model.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            correct = sum(
                (model(x).argmax(1) == y).sum().item() for x, y in zip(val_x.split(50), val_y.split(50), strict=False)
            )
        print(f"epoch {epoch}  train loss {total / len(loader):.3f}  val acc {correct / len(val_y):.3f}")
    with torch.no_grad():  # as the service gets them: one message at a time
        single = sum((model(x[None]).argmax(1) == y).item() for x, y in zip(val_x, val_y, strict=False))
    print(f"final acc of single messages {single / len(val_y):.3f}")


if __name__ == "__main__":
    main()
