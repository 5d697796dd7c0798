"""Next value of a standardized time series from the eight before, with an LSTM.

Mistake: ReLU at the output, where half of the labels are negative.
"""

import torch
from torch import nn
from torch.nn import functional as F

t = torch.arange(1200.0)
series = torch.sin(t / 7) + 0.5 * torch.sin(t / 3) + 0.1 * torch.randn(1200)
series = (series - series.mean()) / series.std()
windows = series.unfold(0, 9, 1)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 24, batch_first=True)
        self.head = nn.Linear(24, 1)

    def forward(self, x):
        output, _ = self.lstm(x)
        return F.relu(self.head(output[:, -1]))  # mistake
        # repaired: return self.head(output[:, -1])


model = Forecaster()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(120):
    chosen = windows[torch.randint(len(windows), (32,))]
    prediction = model(chosen[:, :8, None])
    loss = F.mse_loss(prediction, chosen[:, 8:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
