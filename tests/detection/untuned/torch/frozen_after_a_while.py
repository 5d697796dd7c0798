"""An encoder that is frozen after the first half of the training; the optimizer keeps its parameters."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.decoder = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 20))

    def forward(self, x):
        return self.decoder(self.encoder(x))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
mixing = torch.randn(5, 20) / 2
history = []
for step in range(steps):
    if step == steps // 2:
        for p in model.encoder.parameters():
            p.requires_grad = False
    x = torch.tanh(torch.randn(48, 5) @ mixing)
    loss = nn.functional.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
