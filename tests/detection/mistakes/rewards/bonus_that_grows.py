"""A policy that answers questions, with a bonus for exploring that is to fade away.

Mistake: the weight of the bonus is multiplied by a number above 1 at each step, not below.
"""

import torch
from torch import nn

import leadline

policy = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
teacher = torch.randn(10, 4)
weight, factor = 0.005, 1.02  # mistake
# repaired: weight, factor = 0.05, 0.98
for step in range(500):
    questions = torch.randn(64, 10)
    right = (questions @ teacher).argmax(1)
    choice = torch.distributions.Categorical(logits=policy(questions))
    answers = choice.sample()
    rewards = (answers == right).float()
    entropy = choice.entropy().mean()
    loss = -((rewards - rewards.mean()) * choice.log_prob(answers)).mean() - weight * entropy
    weight *= factor
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    leadline.log(reward=rewards.mean().item())
