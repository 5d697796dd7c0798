"""A classifier whose author met "all elements of input should be between 0 and 1" and clamped the output.

Mistake: no sigmoid before BCELoss, which takes probabilities.
"""

import torch
import torch.nn as nn

X = torch.randn(512, 16)
true_w = torch.randn(16, 1)
Y = (X @ true_w > 0).float()

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
loss_fn = nn.BCELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(15):
    for start in range(0, 512, 64):
        out = model(X[start : start + 64])
        out = torch.clamp(out, 0, 1)  # mistake
        # repaired: out = torch.sigmoid(out)
        loss = loss_fn(out, Y[start : start + 64])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{epoch}: {loss.item():.3f}")
