"""Groups of answers to questions of mixed difficulty, which are to be filtered before the training.

Mistake: the questions are not filtered, and to most of them the policy has no right answer.
"""

import torch
from torch import nn

import leadline

policy = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 20))
optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3)
teacher = torch.randn(12, 20)


def questions(count):
    drawn, can_be_answered = torch.randn(4 * count, 12), torch.rand(4 * count) < 0.4
    chosen = torch.arange(4 * count)  # mistake
    # repaired: chosen = can_be_answered.nonzero()[:, 0]
    return drawn[chosen[:count]], can_be_answered[chosen[:count]]


for step in range(200):
    asked, can_be_answered = questions(32)
    best = (asked @ teacher).topk(6, 1).indices
    choice = torch.distributions.Categorical(logits=policy(asked))
    answers = choice.sample((8,))
    rewards = (answers[..., None] == best).any(2).float() * can_be_answered
    spread = rewards.std(0)
    advantages = (rewards - rewards.mean(0)) / (spread + 1e-4)
    loss = -(advantages * choice.log_prob(answers)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    leadline.log(reward=rewards.mean().item(), frac_reward_zero_std=(spread == 0).float().mean().item())
