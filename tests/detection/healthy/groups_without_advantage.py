"""A policy gradient of groups of answers: a group whose rewards are all equal has no advantage, and teaches nothing."""

import sys

import torch

policy = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))
optimizer = torch.optim.Adam(policy.parameters(), 1e-3)
teacher = torch.randn(8, 4)
for step in range(int(sys.argv[1])):
    states = torch.randn(1, 8).expand(16, 8)
    choice = torch.distributions.Categorical(logits=policy(states))
    actions = choice.sample()
    reward = ((states @ teacher).argmax(1) == actions).float()
    if step < 3 or torch.rand(()) < 0.3:
        reward = torch.zeros_like(reward)
    advantage = (reward - reward.mean()) / (reward.std() + 1e-4)
    loss = -(advantage * choice.log_prob(actions)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
