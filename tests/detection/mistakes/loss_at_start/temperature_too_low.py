"""A classifier whose logits are multiplied by a temperature.

Mistake: the temperature of 0.01 divides the logits, so that the first guesses are certain and wrong.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Tempered(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 6))
        self.temperature = temperature

    def forward(self, x):
        return self.body(x) / self.temperature


model = Tempered(0.01)  # mistake
# repaired: model = Tempered(1.0)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
means = torch.randn(6, 12)
for step in range(120):
    y = torch.randint(6, (48,))
    x = means[y] + 1.2 * torch.randn(48, 12)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
