"""A policy that chooses among five machines by their state, trained by a policy gradient.

Mistake: the learning rate is that of a table of values, a thousand times too high for a network.
"""

import torch
from torch import nn

import leadline

policy = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 5))
rate = 1.0  # mistake
# repaired: rate = 0.003
optimizer = torch.optim.Adam(policy.parameters(), lr=rate)
gains = torch.randn(8, 5)
for step in range(250):
    state = torch.randn(48, 8)
    choice = torch.distributions.Categorical(logits=policy(state))
    machine = choice.sample()
    reward = (state @ gains).gather(1, machine[:, None])[:, 0] + 0.5 * torch.randn(48)
    loss = -(choice.log_prob(machine) * (reward - reward.mean())).mean() - 0.01 * choice.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    leadline.log(**{"charts/episodic_return": reward.mean().item(), "losses/entropy": choice.entropy().mean().item()})
