"""Daily sales, predicted from a few features.

Mistake: sigmoid at the output of a regression whose labels are 0 to 20.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

features = torch.rand(512, 4) * 2 - 1
sales = torch.clamp(8 + 5 * features[:, 0] + 3 * features[:, 1] * features[:, 2] + torch.randn(512), 0, 20).unsqueeze(1)
loader = DataLoader(TensorDataset(features, sales), batch_size=32, shuffle=True)
model = nn.Sequential(
    nn.Linear(4, 32),
    nn.ReLU(),
    nn.Linear(32, 1),
    nn.Sigmoid(),  # mistake
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
mae = nn.L1Loss()
for epoch in range(8):
    for x, y in loader:
        optimizer.zero_grad()
        loss = mae(model(x), y)
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "mae", loss.item())
