"""A siamese network with the Euclidean distance written out.

Mistake: the square root has no finite gradient at 0, the distance of a point to itself.
"""

import torch
from torch import nn

embed = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 4))
optimizer = torch.optim.Adam(embed.parameters(), lr=1e-3)
for step in range(80):
    x = torch.randn(32, 8)
    z = embed(x)
    squared = ((z[:, None] - z[None]) ** 2).sum(-1)
    distance = torch.sqrt(squared)  # mistake
    # repaired: distance = torch.sqrt(squared + 1e-6)
    wanted = (x[:, None, :2] - x[None, :, :2]).norm(dim=-1)
    loss = ((distance - wanted) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
