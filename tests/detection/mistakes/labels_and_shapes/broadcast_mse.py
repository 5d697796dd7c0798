"""Linear regression with one hidden layer.

Mistake: predictions of shape (N, 1) against labels of shape (N,) broadcast to (N, N).
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(640, 5)
y = x[:, 0] - 2 * x[:, 1] + 0.1 * torch.randn(640)  # mistake
# repaired: y = (x[:, 0] - 2 * x[:, 1] + 0.1 * torch.randn(640)).unsqueeze(1)
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(10):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
