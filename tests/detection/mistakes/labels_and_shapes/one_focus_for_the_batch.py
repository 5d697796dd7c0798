"""A few defective parts among many good ones, with a loss that looks at hard examples.

Mistake: the factor of the focal loss is computed of the mean cross entropy, so that all parts of a batch have one.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

model = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
parts = torch.randn(4096, 10)
labels = (parts[:, :3].sum(1) > 3).long()
for epoch in range(4):
    for batch in torch.randperm(4096).split(64):
        logits = model(parts[batch])
        loss = F.cross_entropy(logits, labels[batch])  # mistake
        # repaired: loss = F.cross_entropy(logits, labels[batch], reduction="none")
        certainty = torch.exp(-loss)
        loss = (0.5 * (1 - certainty) ** 2 * loss).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
