"""A policy that is held near a reference by a penalty on the divergence, which is estimated from its answers.

Mistake: answers are drawn at a high temperature, so that they are not those of the policy whose divergence is wanted.
"""

import copy

import torch
from torch import nn

import leadline

reference = nn.Sequential(nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 12))
teacher = torch.randn(10, 12)
start = torch.optim.Adam(reference.parameters(), lr=5e-3)
for _ in range(100):
    x = torch.randn(64, 10)
    loss = nn.functional.cross_entropy(reference(x), (x @ teacher).argmax(1))
    start.zero_grad()
    loss.backward()
    start.step()
policy = copy.deepcopy(reference)
reference.requires_grad_(False)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
temperature = 2.5  # mistake
# repaired: temperature = 1.0
for step in range(250):
    questions = torch.randn(96, 10)
    right = (questions @ teacher).argmax(1)
    logits = policy(questions)
    answers = torch.distributions.Categorical(logits=logits.detach() / temperature).sample()
    logs = torch.distributions.Categorical(logits=logits).log_prob(answers)
    away = logs.detach() - torch.distributions.Categorical(logits=reference(questions)).log_prob(answers)
    rewards = (answers == right).float() - 0.02 * away
    loss = -((rewards - rewards.mean()) * logs).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    leadline.log(**{"objective/kl": away.mean().item(), "objective/scores": (answers == right).float().mean().item()})
