"""An LSTM that forecasts a series, resumed from a file that a class has written.

Mistake: the loaded state goes to an optimizer that another one replaces.
"""

import os
import tempfile

import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(1, 16, batch_first=True)
        self.head = nn.Linear(16, 1)

    def forward(self, series):
        return self.head(self.rnn(series)[0][:, -1])


def batch():
    start = torch.rand(32, 1) * 6
    wave = torch.sin(start + torch.arange(21) * 0.3)
    return wave[:, :20].unsqueeze(2), wave[:, 20:]


def train(model, optimizer, steps):
    for step in range(steps):
        series, following = batch()
        loss = nn.functional.mse_loss(model(series), following)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


model = Forecaster()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
train(model, optimizer, 20)
path = os.path.join(tempfile.mkdtemp(), "last.ckpt")
torch.save({"state_dict": model.state_dict(), "optimizer_states": [optimizer.state_dict()]}, path)

saved = torch.load(path)
model = Forecaster()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
model.load_state_dict(saved["state_dict"])
optimizer.load_state_dict(saved["optimizer_states"][0])
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)  # mistake
train(model, optimizer, 80)
