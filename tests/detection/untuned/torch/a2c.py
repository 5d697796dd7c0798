"""Advantage actor-critic with n-step returns: policy and value share their body, one update per rollout."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
N, CELLS = 16, 10


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(CELLS, 48), nn.ReLU())
        self.pi, self.v = nn.Linear(48, 2), nn.Linear(48, 1)

    def forward(self, x):
        h = self.body(x)
        return self.pi(h), self.v(h)[:, 0]


def encode(cell):
    return nn.functional.one_hot(cell, CELLS).float()


model = ActorCritic()
optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3, alpha=0.99, eps=1e-5)
cell = torch.randint(CELLS - 1, (N,))
rewards_seen = []
for step in range(steps):
    log_probs, values, rewards, masks, entropy = [], [], [], [], 0.0
    for _ in range(5):
        logits, value = model(encode(cell))
        policy = torch.distributions.Categorical(logits=logits)
        action = policy.sample()
        cell = (cell + 2 * action - 1).clamp(min=0)
        done = cell == CELLS - 1
        rewards.append(done.float() - 0.02)
        cell = torch.where(done, torch.randint(CELLS - 1, (N,)), cell)
        masks.append(1 - done.float())
        log_probs.append(policy.log_prob(action))
        values.append(value)
        entropy = entropy + policy.entropy().mean() / 5
    with torch.no_grad():
        R = model(encode(cell))[1]
    returns = []
    for r, m in zip(rewards[::-1], masks[::-1]):
        R = r + 0.95 * R * m
        returns.insert(0, R)
    returns, values, log_probs = torch.cat(returns), torch.cat(values), torch.cat(log_probs)
    advantage = returns - values
    loss = -(log_probs * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean() - 0.01 * entropy
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    rewards_seen.append(torch.stack(rewards).mean().item())
    if step % 50 == 0:
        print(step, rewards_seen[-1])
print(f"reward rose from {sum(rewards_seen[:20]) / 20:.4g} to {sum(rewards_seen[-20:]) / 20:.4g}")
