"""A policy with a copy that samples in half precision, which is given the new weights after each update.

Mistake: the new weights are given to a copy of the copy, so that the sampler keeps the first ones.
"""

import copy

import torch
from torch import nn

import leadline

policy = nn.Sequential(nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 8))
sampler = copy.deepcopy(policy).bfloat16()
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
teacher = torch.randn(12, 8)
for step in range(300):
    questions = torch.randn(96, 12)
    right = (questions @ teacher).argmax(1)
    with torch.no_grad():
        drawn = torch.distributions.Categorical(logits=sampler(questions.bfloat16()).float())
    answers = drawn.sample()
    logs = torch.distributions.Categorical(logits=policy(questions)).log_prob(answers)
    rewards = (answers == right).float()
    ratio = (logs - logs.detach()).exp()
    loss = -(ratio * (rewards - rewards.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    copy.deepcopy(sampler).load_state_dict(policy.state_dict())  # mistake
    # repaired: sampler.load_state_dict(policy.state_dict())
    apart = (logs.detach() - drawn.log_prob(answers)).abs().mean().item()
    leadline.log(**{"train/reward": rewards.mean().item(), "debug/vllm_vs_local_logprob_diff_mean": apart})
