"""A classifier whose layers are all built by one helper.

Mistake: ReLU on the logits, which come before cross entropy.
"""

import torch
from torch import nn


def block(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, n_out), nn.ReLU())


model = nn.Sequential(
    block(12, 64),
    block(64, 32),
    block(32, 5),  # mistake
    # repaired: nn.Linear(32, 5),
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
centers = 1.5 * torch.randn(5, 12)

for step in range(150):
    target = torch.randint(5, (48,))
    batch = centers[target] + torch.randn(48, 12)
    loss = criterion(model(batch), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
