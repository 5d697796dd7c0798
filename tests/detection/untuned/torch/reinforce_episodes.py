"""REINFORCE on a balancing pole: an episode, normalized returns, one update."""

import math
import sys

import torch
from torch import nn
from torch.distributions import Categorical

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Pole:
    def reset(self):
        self.state = (torch.rand(4) - 0.5) * 0.1
        self.time = 0
        return self.state

    def step(self, action):
        x, v, angle, spin = self.state.tolist()
        force = 10.0 if action == 1 else -10.0
        cos, sin = math.cos(angle), math.sin(angle)
        temp = (force + 0.05 * spin**2 * sin) / 1.1
        spin_acc = (9.8 * sin - cos * temp) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        acc = temp - 0.05 * spin_acc * cos / 1.1
        self.state = torch.tensor([x + 0.02 * v, v + 0.02 * acc, angle + 0.02 * spin, spin + 0.02 * spin_acc])
        self.time += 1
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21 or self.time >= 60
        return self.state, 1.0, bool(done)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 64)
        self.dropout = nn.Dropout(p=0.2)
        self.affine2 = nn.Linear(64, 2)
        self.saved_log_probs, self.rewards = [], []

    def forward(self, x):
        return torch.softmax(self.affine2(torch.relu(self.dropout(self.affine1(x)))), dim=1)


policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
env = Pole()
lengths = []
for episode in range(max(30, steps // 2)):
    state, done = env.reset(), False
    while not done:
        m = Categorical(policy(state[None]))
        action = m.sample()
        policy.saved_log_probs.append(m.log_prob(action))
        state, reward, done = env.step(action.item())
        policy.rewards.append(reward)
    R, returns = 0.0, []
    for r in policy.rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-8)
    policy_loss = torch.cat([-log_prob * R for log_prob, R in zip(policy.saved_log_probs, returns)]).sum()
    optimizer.zero_grad()
    policy_loss.backward()
    optimizer.step()
    lengths.append(len(policy.rewards))
    del policy.rewards[:], policy.saved_log_probs[:]
    if episode % 10 == 0:
        print(f"Episode {episode}\tLast length: {lengths[-1]}")
print(f"length rose from {sum(lengths[:10]) / 10:.4g} to {sum(lengths[-10:]) / 10:.4g}")
