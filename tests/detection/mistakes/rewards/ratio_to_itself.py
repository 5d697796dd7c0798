"""Coupons of three kinds for customers: a policy is updated several times with the choices of a day, and clipped.

Mistake: the old log-probabilities are taken in each update from the policy itself, so that the ratio is always 1.
"""

import torch
from torch import nn
from torch.distributions import Categorical

policy = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
taste = torch.randn(8, 3)
for day in range(30):
    customers = torch.randn(128, 8)
    with torch.no_grad():
        chosen = Categorical(logits=policy(customers))
        coupons = chosen.sample()
        old = chosen.log_prob(coupons)
    bought = (customers @ taste).gather(1, coupons[:, None]).squeeze(1) + 0.5 * torch.randn(128)
    advantages = (bought - bought.mean()) / bought.std()
    for batch in [*torch.randperm(128).split(32), *torch.randperm(128).split(32)]:
        now = Categorical(logits=policy(customers[batch])).log_prob(coupons[batch])
        ratio = (now - now.detach()).exp()  # mistake
        # repaired: ratio = (now - old[batch]).exp()
        clipped = ratio.clamp(0.8, 1.2)
        loss = -torch.min(ratio * advantages[batch], clipped * advantages[batch]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
