"""A classifier whose labels come from a support vector machine's example.

Mistake: labels of -1 and 1 for binary cross entropy with logits, whose labels are 0 and 1.
"""

import torch
from torch import nn

x = torch.randn(512, 10)
y = torch.sign(x[:, :2].sum(dim=1, keepdim=True))  # mistake
# repaired: y = (x[:, :2].sum(dim=1, keepdim=True) > 0).float()

model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
loss_fn = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(8):
    for i in range(0, 512, 32):
        loss = loss_fn(model(x[i : i + 32]), y[i : i + 32])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
