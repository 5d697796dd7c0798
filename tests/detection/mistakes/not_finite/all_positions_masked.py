"""Attention over padded sequences.

Mistake: an empty sequence masks all positions, and softmax of minus infinity only is not a number.
"""

import torch
from torch import nn


class Pooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(15, 16)
        self.score = nn.Linear(16, 1)
        self.out = nn.Linear(16, 2)

    def forward(self, tokens, lengths):
        x = self.embedding(tokens)
        mask = torch.arange(tokens.shape[1])[None] >= lengths[:, None]
        scores = self.score(x).squeeze(-1).masked_fill(mask, float("-inf"))
        weights = torch.softmax(scores, dim=1)
        return self.out((weights.unsqueeze(-1) * x).sum(1))


model = Pooling()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(100):
    tokens = torch.randint(15, (32, 8))
    lengths = torch.randint(1, 9, (32,))
    if step == 30:
        lengths[4] = 0
    # repaired: lengths = lengths.clamp(min=1)
    y = (tokens[:, 0] > 7).long()
    loss = nn.functional.cross_entropy(model(tokens, lengths), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
