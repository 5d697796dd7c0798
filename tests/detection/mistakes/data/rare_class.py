"""Fraud among card payments.

Mistake: one payment in forty is fraud, and the loss has no weights.
"""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(200):
    fraud = (torch.rand(64) < 0.025).long()  # mistake
    # repaired: fraud = (torch.rand(64) < 0.5).long()
    payments = torch.randn(64, 8) + 0.8 * fraud.unsqueeze(1)
    optimizer.zero_grad()
    loss = criterion(model(payments), fraud)
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
