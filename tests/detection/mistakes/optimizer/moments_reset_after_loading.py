"""A recurrent classifier, resumed with the state of its optimizer.

Mistake: the moments are set to zero at every start of the program, a restored one included.
"""

import io

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 16, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, series):
        return self.head(self.rnn(series)[0][:, -1])


def prepare(optimizer):
    for state in optimizer.state.values():
        for name, value in state.items():
            if name != "step":
                value.zero_()


def train(model, optimizer, steps):
    for _ in range(steps):
        series = torch.randn(32, 12, 4)
        label = (series[:, -3:, 0].sum(dim=1) > 0).long()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(series), label)
        loss.backward()
        optimizer.step()
    print(loss.item())


model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
train(model, optimizer, 150)
file = io.BytesIO()
torch.save({"net": model.state_dict(), "optim": optimizer.state_dict()}, file)

file.seek(0)
saved = torch.load(file)
model = Classifier()
model.load_state_dict(saved["net"])
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
optimizer.load_state_dict(saved["optim"])
prepare(optimizer)  # mistake
train(model, optimizer, 150)
