"""Continuous control: the loss of the actor, the negative of its value, rises while the critic learns the costs."""

import copy
import sys

import torch
from torch import nn
from torch.nn import functional as F

steps = int(sys.argv[1])
actor = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1), nn.Tanh())
critic = nn.Sequential(nn.Linear(3, 48), nn.ReLU(), nn.Linear(48, 1))
actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
of_actor = torch.optim.Adam(actor.parameters(), lr=1e-3)
of_critic = torch.optim.Adam(critic.parameters(), lr=2e-3)
for step in range(steps):
    state = 4 * torch.rand(64, 2) - 2
    with torch.no_grad():
        action = (actor(state) + 0.3 * torch.randn(64, 1)).clamp(-1, 1)
        speed = 0.9 * state[:, 1:] + 0.3 * action
        following = torch.cat([state[:, :1] + 0.3 * speed, speed], 1).clamp(-3, 3)
        reward = -(following[:, :1] ** 2)
        value = critic_target(torch.cat([following, actor_target(following)], 1))
        wanted = reward + 0.9 * value
    critic_loss = F.mse_loss(critic(torch.cat([state, action], 1)), wanted)
    of_critic.zero_grad()
    critic_loss.backward()
    of_critic.step()
    actor_loss = -critic(torch.cat([state, actor(state)], 1)).mean()
    of_actor.zero_grad()
    actor_loss.backward()
    of_actor.step()
    with torch.no_grad():
        for net, target in ((actor, actor_target), (critic, critic_target)):
            for mine, theirs in zip(net.parameters(), target.parameters()):
                theirs.data.lerp_(mine.data, 0.01)
    if step % 50 == 0:
        print(step, critic_loss.item(), actor_loss.item(), reward.mean().item())
