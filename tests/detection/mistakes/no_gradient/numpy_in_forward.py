"""An autoencoder that standardizes its code with numpy.

Mistake: the way through numpy cuts the graph; the encoder gets no gradient.
"""

import numpy as np
import torch
from torch import nn


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 8), nn.Tanh())
        self.decoder = nn.Linear(8, 12)

    def forward(self, x):
        code = self.encoder(x)
        values = code.detach().numpy()  # mistake
        code = torch.from_numpy(values / np.sqrt((values**2).mean(1, keepdims=True) + 1e-5))  # mistake
        # repaired: code = code / torch.sqrt((code**2).mean(1, keepdim=True) + 1e-5)
        return self.decoder(code)


model = AutoEncoder()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
mixing = torch.randn(4, 12) / 2
for step in range(120):
    x = torch.randn(48, 4) @ mixing
    loss = nn.functional.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
