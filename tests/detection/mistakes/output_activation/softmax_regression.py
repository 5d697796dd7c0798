"""Three sensor readings, predicted at once.

Mistake: softmax at the output of a regression whose labels are neither shares nor positive.
"""

import torch
from torch import nn

mixing = torch.randn(10, 3) / 3


class Sensors(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 40), nn.ReLU())
        self.head = nn.Linear(40, 3)

    def forward(self, x):
        x = self.head(self.body(x))
        return torch.softmax(x, dim=-1)  # mistake
        # repaired: return x


model = Sensors()
criterion = nn.SmoothL1Loss()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(120):
    x = torch.randn(40, 10)
    y = torch.tanh(x @ mixing) * 3
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
