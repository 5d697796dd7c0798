"""A policy that approaches a target, learned from groups of tries; the trainer logs the spread of the rewards.

Mistake: the reward is an int where it should be a float, and every distance below 1 is rounded to the same number.
"""

import torch
from torch import nn

import leadline

policy = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 9))
optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
places = torch.linspace(0, 0.9, 9)
teacher = torch.randn(6)
for step in range(80):
    states = torch.randn(8, 6)
    targets = torch.sigmoid(states @ teacher) * 0.9
    choice = torch.distributions.Categorical(logits=policy(states))
    tries = choice.sample((6,))
    distances = (places[tries] - targets).abs()
    rewards = 1.0 - distances.int()  # mistake
    # repaired: rewards = 1.0 - distances
    advantages = rewards - rewards.mean(dim=0)
    loss = -(advantages * choice.log_prob(tries)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    leadline.log(reward=rewards.mean().item(), reward_std=rewards.std().item())
