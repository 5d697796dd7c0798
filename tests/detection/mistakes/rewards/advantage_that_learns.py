"""An agent on a ring of 12 places is to find the one that its observation names, by an actor and a critic.

Mistake: the advantage of the policy's loss is not detached, so that the critic learns to make that loss small.
"""

import torch
from torch import nn
from torch.nn import functional as F

actor = nn.Sequential(nn.Linear(24, 48), nn.Tanh(), nn.Linear(48, 3))
critic = nn.Sequential(nn.Linear(24, 48), nn.Tanh(), nn.Linear(48, 1))
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-3)
place, goal = torch.randint(12, (32,)), torch.randint(12, (32,))
for update in range(150):
    observations, actions, rewards, ends = [], [], [], []
    for _ in range(6):
        observation = torch.cat([F.one_hot(place, 12), F.one_hot(goal, 12)], 1).float()
        with torch.no_grad():
            action = torch.distributions.Categorical(logits=actor(observation)).sample()
        place = (place + action - 1) % 12
        found = place == goal
        goal = torch.where(found, torch.randint(12, (32,)), goal)
        observations.append(observation)
        actions.append(action)
        rewards.append(found.float() - 0.05)
        ends.append(found.float())
    given = torch.stack(observations)
    values = critic(given).squeeze(-1)
    with torch.no_grad():
        following = critic(torch.cat([F.one_hot(place, 12), F.one_hot(goal, 12)], 1).float()).squeeze(-1)
        returns = torch.zeros(6, 32)
        for step in reversed(range(6)):
            following = rewards[step] + 0.9 * (1 - ends[step]) * following
            returns[step] = following
    policy = torch.distributions.Categorical(logits=actor(given))
    advantage = returns - values  # mistake
    # repaired: advantage = (returns - values).detach()
    loss = F.mse_loss(values, returns) - (advantage * policy.log_prob(torch.stack(actions))).mean()
    loss = loss - 0.01 * policy.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
