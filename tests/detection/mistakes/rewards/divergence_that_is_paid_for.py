"""Answers by a policy that was trained on examples; the reward has a term for the divergence from that start.

Mistake: the term is added to the reward, so that the policy is paid for going away.
"""

import copy

import torch
from torch import nn

import leadline

policy = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 10))
teacher = torch.randn(8, 10)
start = torch.optim.Adam(policy.parameters(), lr=5e-3)
for _ in range(300):
    x = torch.randn(64, 8)
    loss = nn.functional.cross_entropy(policy(x), (x @ teacher).argmax(1))
    start.zero_grad()
    loss.backward()
    start.step()
reference = copy.deepcopy(policy).requires_grad_(False)
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
for step in range(300):
    questions = torch.randn(128, 8)
    right = (questions @ teacher).argmax(1)
    choice = torch.distributions.Categorical(logits=policy(questions))
    answers = choice.sample()
    logs = choice.log_prob(answers)
    away = logs.detach() - torch.distributions.Categorical(logits=reference(questions)).log_prob(answers)
    scores = (answers == right).float()
    rewards = scores + 0.5 * away  # mistake
    # repaired: rewards = scores - 0.5 * away
    loss = -((rewards - rewards.mean()) * logs).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    leadline.log(**{"objective/scores": scores.mean().item(), "objective/kl": away.mean().item()})
