"""A regression whose log has the norm of its gradients, by which someone will choose where to clip.

Mistake: the norms of the parameters are added, not their squares.
"""

import torch
from torch import nn

import leadline

model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
teacher = nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 1))
for step in range(400):
    x = torch.randn(64, 12)
    y = teacher(x).detach() + 0.05 * torch.randn(64, 1)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    norms = torch.stack([parameter.grad.norm() for parameter in model.parameters()])
    norm = norms.sum()  # mistake
    # repaired: norm = norms.norm()
    optimizer.step()
    leadline.log(loss=loss.item(), grad_norm=norm.item())
