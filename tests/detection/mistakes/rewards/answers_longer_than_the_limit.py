"""A policy that decides after each token of an answer whether it ends, with a limit of 12 tokens.

Mistake: the reward of an answer is the sum over its tokens, so that the policy learns never to end.
"""

import torch
from torch import nn

import leadline

LIMIT = 12
policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
teacher = torch.randn(6)
with torch.no_grad():
    policy[2].bias.copy_(torch.tensor([0.0, 0.5]))
for step in range(150):
    questions = torch.randn(48, 6)
    good = (questions @ teacher > 0).float()
    running, logs, lengths = torch.ones(48), torch.zeros(48), torch.zeros(48)
    for _ in range(LIMIT):
        ends = torch.distributions.Categorical(logits=policy(questions))
        choice = ends.sample()
        logs = logs + running * ends.log_prob(choice)
        lengths = lengths + running
        running = running * (choice == 0)
    rewards = good + 0.1 * lengths  # mistake
    # repaired: rewards = good + 1.0 - (lengths - 3).abs() / LIMIT
    loss = -((rewards - rewards.mean()) * logs).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    leadline.log(
        **{
            "reward": rewards.mean().item(),
            "completions/mean_length": lengths.mean().item(),
            "completions/clipped_ratio": running.mean().item(),
        }
    )
