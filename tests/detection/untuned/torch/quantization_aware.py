"""Fine-tuning with weights and activations rounded to four bits in the forward pass, straight through backwards."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


def fake_quantize(x, bits=4):
    scale = x.detach().abs().max() / (2 ** (bits - 1) - 1) + 1e-8
    return x + ((x / scale).round() * scale - x).detach()


class QuantLinear(nn.Linear):
    quantized = False

    def forward(self, x):
        if not self.quantized:
            return super().forward(x)
        return nn.functional.linear(fake_quantize(x), fake_quantize(self.weight), self.bias)


model = nn.Sequential(QuantLinear(16, 64), nn.ReLU(), QuantLinear(64, 64), nn.ReLU(), QuantLinear(64, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
centres = torch.randn(5, 16)
history = []
for step in range(steps):
    if step == steps // 2:
        QuantLinear.quantized = True
        optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    y = torch.randint(5, (32,))
    x = centres[y] + 0.8 * torch.randn(32, 16)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
