"""An LSTM forecasts a series with its state carried from window to window (truncated backpropagation)."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 32, batch_first=True)
        self.head = nn.Linear(32, 1)

    def forward(self, x, state=None):
        out, state = self.lstm(x, state)
        return self.head(out), state


t = torch.arange(2000.0)
phases = torch.rand(8, 1) * 6
series = torch.sin(t / 8 + phases) + 0.5 * torch.sin(t / 21 + 2 * phases) + 0.05 * torch.randn(8, 2000)
train, valid = series[:6], series[6:]
model = Forecaster()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
history, state, at = [], None, 0
for step in range(steps):
    if at + 26 > 2000:
        state, at = None, 0
    window = train[:, at : at + 26]
    at += 25
    prediction, state = model(window[:, :-1, None], state)
    state = tuple(part.detach() for part in state)
    loss = nn.functional.mse_loss(prediction[..., 0], window[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 49:
        model.eval()
        with torch.no_grad():
            prediction, _ = model(valid[:, :400, None])
            print(step, loss.item(), nn.functional.mse_loss(prediction[..., 0], valid[:, 1:401]).item())
        model.train()
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
