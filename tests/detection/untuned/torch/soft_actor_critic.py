"""Soft actor-critic: twin critics, target networks, a learned temperature, a replay buffer filled at random first."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


def mlp(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


actor, q1, q2 = mlp(2, 2), mlp(3, 1), mlp(3, 1)
q1_target, q2_target = copy.deepcopy(q1).requires_grad_(False), copy.deepcopy(q2).requires_grad_(False)
log_alpha = torch.zeros(1, requires_grad=True)
q_optimizer = torch.optim.Adam([*q1.parameters(), *q2.parameters()], lr=3e-3)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
alpha_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)


def act(state):
    mean, log_std = actor(state).chunk(2, 1)
    normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
    raw = normal.rsample()
    action = raw.tanh()
    return action, normal.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)


def env(state, action):
    place, speed = state[:, :1], state[:, 1:]
    speed = 0.9 * speed + 0.2 * action
    place = (place + speed).clamp(-2, 2)
    return torch.cat([place, speed], 1), -(place**2) - 0.05 * action**2


def evaluate():
    generator = torch.Generator().manual_seed(1)
    state, total = torch.rand(32, 2, generator=generator) * 2 - 1, 0.0
    with torch.no_grad():
        for _ in range(20):
            state, reward = env(state, actor(state)[:, :1].tanh())
            total += reward.mean().item()
    return total


before = evaluate()
buffer, state = [], torch.rand(1, 2) * 2 - 1
for step in range(steps + 64):
    with torch.no_grad():
        action = torch.rand(1, 1) * 2 - 1 if step < 64 else act(state)[0]
    following, reward = env(state, action)
    buffer.append(torch.cat([state, action, reward, following], 1))
    state = torch.rand(1, 2) * 2 - 1 if step % 20 == 19 else following
    if step < 64:
        continue
    data = torch.cat(buffer)[torch.randint(len(buffer), (64,))]
    s, a, r, s2 = data[:, :2], data[:, 2:3], data[:, 3:4], data[:, 4:]
    with torch.no_grad():
        a2, logp2 = act(s2)
        sa2 = torch.cat([s2, a2], 1)
        target = r + 0.95 * (torch.min(q1_target(sa2), q2_target(sa2)) - log_alpha.exp() * logp2)
    sa = torch.cat([s, a], 1)
    q_loss = F.mse_loss(q1(sa), target) + F.mse_loss(q2(sa), target)
    q_optimizer.zero_grad()
    q_loss.backward()
    q_optimizer.step()
    pi, logp = act(s)
    spi = torch.cat([s, pi], 1)
    actor_loss = (log_alpha.exp().detach() * logp - torch.min(q1(spi), q2(spi))).mean()
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()
    alpha_loss = (-log_alpha.exp() * (logp.detach() - 1.0)).mean()
    alpha_optimizer.zero_grad()
    alpha_loss.backward()
    alpha_optimizer.step()
    with torch.no_grad():
        for net, old in ((q1, q1_target), (q2, q2_target)):
            for p, p_old in zip(net.parameters(), old.parameters()):
                p_old.lerp_(p, 0.02)
    if step % 50 == 0:
        print(step, q_loss.item(), actor_loss.item(), log_alpha.exp().item())
print(f"return rose from {before:.4g} to {evaluate():.4g}")
