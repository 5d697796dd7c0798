"""A classifier of defects, of which one part in ten has one, with weights for the classes.

Mistake: the weights are the shares of the classes, not their inverses: the rare class hardly counts.
"""

import torch
import torch.nn as nn

direction = torch.randn(10)
x = torch.randn(1280, 10)
score = x @ direction + torch.randn(1280)
y = (score > score.quantile(0.9)).long()
counts = torch.bincount(y, minlength=2).float()
weights = counts / counts.sum()  # mistake
# repaired: weights = counts.sum() / (2 * counts)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
criterion = nn.CrossEntropyLoss(weight=weights)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(8):
    for batch in torch.randperm(1280).split(64):
        loss = criterion(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        found = (model(x).argmax(1)[y == 1] == 1).float().mean()
    print(f"epoch {epoch} loss {loss.item():.4f} recall of defects {found:.3f}")
