"""Sick or healthy, from blood values.

Mistake: a regression loss (mean absolute error, no activation) on labels that are 0 and 1.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

values = torch.randn(480, 9)
sick = ((values[:, 4] > 0.3) ^ (values[:, 5] > 0.2)).float().unsqueeze(-1)
loader = DataLoader(TensorDataset(values, sick), batch_size=24, shuffle=True)


class Diagnosis(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(9, 32), nn.Linear(32, 32)])
        self.last = nn.Linear(32, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.last(x)


net = Diagnosis()
optim = torch.optim.Adam(net.parameters(), lr=3e-3)
loss_fn = nn.L1Loss()  # mistake
# repaired: loss_fn = nn.BCEWithLogitsLoss()
for epoch in range(6):
    for xb, yb in loader:
        optim.zero_grad()
        loss = loss_fn(net(xb), yb)
        loss.backward()
        optim.step()
    print(epoch, loss.item())
