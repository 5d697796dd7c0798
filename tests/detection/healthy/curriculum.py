"""Sequences that grow longer during training, so that the loss rises whenever the task becomes harder."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 32, batch_first=True)
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        return self.head(self.rnn(x)[1][-1])


model = Sum()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(steps):
    length = 2 + 8 * step // steps
    x = torch.randn(32, length, 1)
    y = x.sum(1) / 2
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 50 == 0:
        print(step, length, loss.item())
