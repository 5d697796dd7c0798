"""Groups of answers by a policy that soon solves its task: the reward saturates, and groups die, as they are all right.

Everything is logged as TRL logs it: reward, share of dead groups, entropy, KL divergence, gradient norm, loss.
"""

import copy
import sys

import torch
from torch import nn

import leadline

steps = int(sys.argv[1])
policy = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 8))
reference = copy.deepcopy(policy).requires_grad_(False)
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))
teacher = torch.randn(10, 8)
for _ in range(steps):
    questions = torch.randn(16, 10)
    right = (questions @ teacher).topk(3, 1).indices
    choice = torch.distributions.Categorical(logits=policy(questions))
    answers = choice.sample((8,))
    logs = choice.log_prob(answers)
    rewards = (answers[..., None] == right).any(2).float()
    advantages = (rewards - rewards.mean(0)) / (rewards.std(0) + 1e-4)
    before = torch.distributions.Categorical(logits=reference(questions)).log_prob(answers) - logs
    divergence = (before.exp() - before - 1).mean()
    loss = -((logs - logs.detach()).exp() * advantages).mean() + 0.01 * divergence
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    leadline.log(
        reward=rewards.mean().item(),
        frac_reward_zero_std=(rewards.std(0) == 0).float().mean().item(),
        entropy=choice.entropy().mean().item(),
        kl=divergence.item(),
        grad_norm=norm.item(),
        learning_rate=schedule.get_last_lr()[0],
        loss=round(loss.item(), 4),
    )
