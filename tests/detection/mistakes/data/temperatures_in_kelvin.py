"""Tomorrow's temperature from those of a week, by an LSTM.

Mistake: temperatures in hundredths of a kelvin, inputs and labels alike.
"""

import torch
from torch import nn


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 24, batch_first=True)
        self.out = nn.Linear(24, 1)

    def forward(self, week):
        return self.out(self.lstm(week)[0][:, -1])


days = torch.cumsum(0.3 * torch.randn(400, 8, 1), 1)
days = 28500 + 700 * days  # mistake
model = Forecast()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(8):
    for part in torch.randperm(400).split(25):
        loss = nn.functional.mse_loss(model(days[part, :7]), days[part, 7])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
