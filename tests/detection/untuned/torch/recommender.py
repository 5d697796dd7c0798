"""Ranking of items from implicit feedback (BPR): sparse embeddings with SparseAdam, dense biases with Adam."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
USERS, ITEMS = 100, 80
taste, kind = torch.randn(USERS, 4), torch.randn(ITEMS, 4)
likes = (taste @ kind.T) > 1.0


class BPR(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(USERS, 16, sparse=True)
        self.items = nn.Embedding(ITEMS, 16, sparse=True)
        self.bias = nn.Parameter(torch.zeros(ITEMS))
        nn.init.normal_(self.users.weight, std=0.1)
        nn.init.normal_(self.items.weight, std=0.1)

    def forward(self, u, i):
        return (self.users(u) * self.items(i)).sum(1) + self.bias[i]


model = BPR()
sparse = torch.optim.SparseAdam([model.users.weight, model.items.weight], lr=0.02)
dense = torch.optim.Adam([model.bias], lr=0.01)
positives = likes.nonzero()
history = []
for step in range(steps):
    user, liked = positives[torch.randint(len(positives), (128,))].T
    other = torch.randint(ITEMS, (128,))
    keep = ~likes[user, other]
    user, liked, other = user[keep], liked[keep], other[keep]
    loss = -F.logsigmoid(model(user, liked) - model(user, other)).mean()
    sparse.zero_grad()
    dense.zero_grad()
    loss.backward()
    sparse.step()
    dense.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
