"""A classifier of sequences that is compiled for fixed sizes, on batches that are padded to their longest sample.

Mistake: each length is another size, for which the model is compiled again.
"""

import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 24)
        self.hidden = nn.Linear(24, 24)
        self.head = nn.Linear(24, 3)

    def forward(self, tokens):
        states = torch.relu(self.hidden(self.embedding(tokens)))
        return self.head((states * (tokens > 0)[..., None]).sum(1) / (tokens > 0).sum(1, keepdim=True))


torch.manual_seed(0)
model = Reader()
compiled = torch.compile(model, dynamic=False, backend="eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(120):
    length = 10 + 5 * step % 37
    tokens = torch.randint(1, 50, (16, length))
    labels = tokens.float().mean(1).sub(25).div(2).round().clamp(-1, 1).long() + 1
    # repaired: tokens = nn.functional.pad(tokens, (0, 48 - length))
    loss = nn.functional.cross_entropy(compiled(tokens), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
