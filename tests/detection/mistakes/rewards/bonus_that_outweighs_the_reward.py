"""A policy that was trained on examples, improved by rewards, with a bonus for its entropy against a collapse.

Mistake: the bonus is that of the paper, whose rewards are a hundred times as large.
"""

import torch
from torch import nn

import leadline

policy = nn.Sequential(nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 16))
teacher = torch.randn(10, 16)
start = torch.optim.Adam(policy.parameters(), lr=5e-3)
for _ in range(300):
    x = torch.randn(64, 10)
    loss = nn.functional.cross_entropy(policy(x), (x @ teacher).argmax(1))
    start.zero_grad()
    loss.backward()
    start.step()
optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3)
bonus = 1.0  # mistake
# repaired: bonus = 0.01
for step in range(400):
    questions = torch.randn(64, 10)
    choice = torch.distributions.Categorical(logits=policy(questions))
    answers = choice.sample()
    rewards = (answers == (questions @ teacher).argmax(1)).float()
    entropy = choice.entropy().mean()
    loss = -((rewards - rewards.mean()) * choice.log_prob(answers)).mean() - bonus * entropy
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    leadline.log(**{"critic/score/mean": rewards.mean().item(), "actor/entropy": entropy.item()})
