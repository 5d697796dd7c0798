"""A recurrent network for sums, whose hidden state starts anew in each epoch.

Mistake: reset_parameters is called in place of a reset of the hidden state.
"""

import torch
import torch.nn as nn


class Adder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 24, batch_first=True)
        self.head = nn.Linear(24, 1)
        self.hidden = None

    def reset(self):
        self.hidden = None
        self.rnn.reset_parameters()  # mistake

    def forward(self, numbers):
        states, _ = self.rnn(numbers, self.hidden)
        return self.head(states[:, -1])


model = Adder()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
for epoch in range(7):
    model.reset()
    for _ in range(30):
        numbers = torch.rand(32, 8, 1)
        loss = nn.functional.mse_loss(model(numbers), numbers.sum(dim=1) / 4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
