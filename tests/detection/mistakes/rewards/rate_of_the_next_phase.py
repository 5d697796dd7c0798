"""A policy that learns from rewards in two phases, with the metrics of a GRPO trainer.

Mistake: the second phase has the learning rate of the pretraining, a hundred times that of the first.
"""

import copy

import torch
from torch import nn

import leadline

policy = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 6))
reference = copy.deepcopy(policy).requires_grad_(False)
optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3)
teacher = torch.randn(10, 6)
second = 0.2  # mistake
# repaired: second = 0.0005
for step in range(320):
    if step == 200:
        optimizer.param_groups[0]["lr"] = second
    questions = torch.randn(16, 10)
    choice = torch.distributions.Categorical(logits=policy(questions))
    answers = choice.sample((8,))
    logs = choice.log_prob(answers)
    rewards = (answers == (questions @ teacher).argmax(1)).float()
    advantages = rewards - rewards.mean(0)
    before = torch.distributions.Categorical(logits=reference(questions)).log_prob(answers) - logs
    divergence = (before.exp() - before - 1).mean()
    loss = -(advantages * logs).mean()
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    leadline.log(
        reward=rewards.mean().item(),
        entropy=choice.entropy().mean().item(),
        kl=divergence.item(),
        grad_norm=norm.item(),
        learning_rate=optimizer.param_groups[0]["lr"],
    )
