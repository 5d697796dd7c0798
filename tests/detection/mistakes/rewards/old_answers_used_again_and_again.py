"""A policy that was trained on examples, improved by rewards for its own answers.

Mistake: the answers are sampled once, and used for all updates without a ratio of the policies.
"""

import torch
from torch import nn

import leadline

policy = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 6))
teacher = torch.randn(10, 6)
start = torch.optim.Adam(policy.parameters(), lr=5e-3)
for _ in range(150):
    x = torch.randn(64, 10)
    loss = nn.functional.cross_entropy(policy(x), (x @ teacher).argmax(1))
    start.zero_grad()
    loss.backward()
    start.step()
optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
questions = torch.randn(64, 10)
answers = torch.distributions.Categorical(logits=policy(questions)).sample()
for step in range(200):
    # repaired: questions = torch.randn(64, 10)
    # repaired: answers = torch.distributions.Categorical(logits=policy(questions)).sample()
    choice = torch.distributions.Categorical(logits=policy(questions))
    rewards = torch.where(answers == (questions @ teacher).argmax(1), 0.0, -1.0)  # mistake
    # repaired: rewards = (answers == (questions @ teacher).argmax(1)).float()
    # repaired: rewards = rewards - rewards.mean()
    loss = -(rewards * choice.log_prob(answers)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        x = torch.randn(128, 10)
        mine = torch.distributions.Categorical(logits=policy(x)).sample()
    leadline.log(reward=(mine == (x @ teacher).argmax(1)).float().mean().item())
