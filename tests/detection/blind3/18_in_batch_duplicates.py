"""A two-tower recommender with in-batch negatives."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
USERS, ITEMS, BATCH = 400, 60, 256


def interactions(generator):
    """Users of eight tastes; a few items of each taste are very popular."""
    taste = torch.randint(0, 8, (USERS,), generator=generator)
    item_taste = torch.arange(ITEMS) % 8
    popularity = 1.0 / (1 + torch.arange(ITEMS) // 8).float() ** 1.5
    weights = popularity[None] * torch.where(taste[:, None] == item_taste[None], 1.0, 0.03)
    items = torch.multinomial(weights, 30, replacement=True, generator=generator)
    users = torch.arange(USERS)[:, None].expand_as(items)
    return users, items


class Towers(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.user, self.item = nn.Embedding(USERS, width), nn.Embedding(ITEMS, width)
        self.user_mlp, self.item_mlp = nn.Linear(width, width), nn.Linear(width, width)

    def users(self, ids):
        return F.normalize(self.user_mlp(self.user(ids)), dim=-1)

    def items(self, ids):
        return F.normalize(self.item_mlp(self.item(ids)), dim=-1)


def main():
    generator = torch.Generator().manual_seed(0)
    users, items = interactions(generator)
    train = TensorDataset(users[:, :24].flatten(), items[:, :24].flatten())
    test_users, test_items = users[:, 24:].flatten(), items[:, 24:].flatten()
    loader = DataLoader(train, batch_size=BATCH, shuffle=True, drop_last=True)
    model = Towers()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(20):
        model.train()
        total = 0.0
        for user, item in loader:
            logits = model.users(user) @ model.items(item).T / 0.1
            if FIXED:
                same = item[:, None] == item[None, :]
                same.fill_diagonal_(False)
                logits = logits.masked_fill(same, float("-inf"))
            loss = F.cross_entropy(logits, torch.arange(len(user)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        if epoch % 4 == 3:
            model.eval()
            with torch.no_grad():
                scores = model.users(test_users) @ model.items(torch.arange(ITEMS)).T
            top = scores.topk(5).indices
            recall = (top == test_items[:, None]).any(1).float().mean().item()
            print(f"epoch {epoch}  loss {total / len(loader):.3f}  recall@5 {recall:.3f}")


if __name__ == "__main__":
    main()
