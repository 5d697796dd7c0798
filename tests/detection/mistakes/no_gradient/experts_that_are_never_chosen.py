"""A mixture of four experts, of which a router chooses one for each sample.

Mistake: the router has no balance loss, and begins with a large bias for one expert: the others get nothing.
"""

import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self, width=16, experts=4):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, width)) for _ in range(experts)
        )

    def forward(self, x):
        weights = self.router(x).softmax(dim=-1)
        best, index = weights.max(dim=-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            chosen = index == number
            if chosen.any():
                out[chosen] = best[chosen, None] * expert(x[chosen])
        return x + out


model = nn.Sequential(nn.Linear(8, 16), Mixture(), nn.Linear(16, 4))
with torch.no_grad():
    model[1].router.bias[0] = 6.0  # mistake
    # repaired: model[1].router.bias[0] = 0.0
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
means = torch.randn(4, 8)
for step in range(120):
    labels = torch.randint(4, (64,))
    loss = nn.functional.cross_entropy(model(means[labels] + 0.8 * torch.randn(64, 8)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
