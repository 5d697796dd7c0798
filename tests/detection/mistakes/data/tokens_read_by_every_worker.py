"""A language model on a file of tokens that a data loader with three workers streams.

Mistake: the part of the file does not depend on the worker.
"""

import torch
from torch import nn
from torch.utils import data

tokens = torch.randint(40, (30_000,))
tokens[1::2] = (tokens[::2] * 7 + 3) % 40


class Tokens(data.IterableDataset):
    def __iter__(self):
        part = tokens  # mistake
        # repaired: part = tokens.chunk(data.get_worker_info().num_workers)[data.get_worker_info().id]
        for at in range(0, len(part) - 17, 16):
            yield part[at : at + 16], part[at + 1 : at + 17]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.rnn, self.head = (
            nn.Embedding(40, 24),
            nn.GRU(24, 160, batch_first=True),
            nn.Linear(160, 40),
        )

    def forward(self, x):
        return self.head(self.rnn(self.embedding(x))[0])


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step, (x, y) in enumerate(data.DataLoader(Tokens(), batch_size=16, num_workers=3)):
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 110:
        break
print(loss.item())
