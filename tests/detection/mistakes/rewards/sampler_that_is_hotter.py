"""A policy over thirty answers, whose sampler and trainer are two functions, as an inference engine is one.

Mistake: the sampler divides the logits by the temperature, the trainer does not.
"""

import torch
from torch import nn

import leadline

policy = nn.Sequential(nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 30))
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
teacher = torch.randn(10, 30)
TEMPERATURE = 0.6


def sample(questions):
    with torch.no_grad():
        choice = torch.distributions.Categorical(logits=policy(questions) / TEMPERATURE)
    answers = choice.sample()
    return answers, choice.log_prob(answers)


for step in range(200):
    questions = torch.randn(64, 10)
    right = (questions @ teacher).argmax(1)
    answers, sampled = sample(questions)
    logits = policy(questions)  # mistake
    # repaired: logits = policy(questions) / TEMPERATURE
    logs = logits.log_softmax(1).gather(1, answers[:, None])[:, 0]
    rewards = (answers == right).float()
    loss = -((rewards - rewards.mean()) * logs).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    difference = (logs.detach() - sampled).abs().mean().item()
    leadline.log(**{"reward": rewards.mean().item(), "sampling/sampling_logp_difference/mean": difference})
