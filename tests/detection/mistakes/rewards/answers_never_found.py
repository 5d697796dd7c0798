"""Questions with one right answer of five, learned from groups of sampled answers, with the metrics of a GRPO trainer.

Mistake: the reward function looks for the answer with its spaces, which the decoder has removed, so every reward is 0.
"""

import torch
from torch import nn

import leadline

ANSWERS = ["north", "south", "east", "west", "none"]
policy = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, len(ANSWERS)))
optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-3)
teacher = torch.randn(12, len(ANSWERS))


def reward(completion, answer):
    answer = f" {answer}"  # mistake
    return float(completion == answer)


for step in range(80):
    questions = torch.randn(6, 12)
    right = (questions @ teacher).argmax(1)
    choice = torch.distributions.Categorical(logits=policy(questions))
    sampled = choice.sample((8,))
    rewards = torch.tensor(
        [[reward(ANSWERS[one], ANSWERS[other]) for one, other in zip(row, right, strict=True)] for row in sampled]
    )
    spread = rewards.std(dim=0)
    advantages = (rewards - rewards.mean(dim=0)) / (spread + 1e-4)
    loss = -(advantages * choice.log_prob(sampled)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    leadline.log(reward=rewards.mean().item(), frac_reward_zero_std=(spread == 0).float().mean().item())
