"""REINFORCE with a value baseline and an entropy bonus: the return rises, the loss says nothing."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh())
        self.actor = nn.Linear(32, 3)
        self.critic = nn.Linear(32, 1)

    def forward(self, x):
        x = self.body(x)
        return torch.softmax(self.actor(x), dim=-1), self.critic(x)


model = ActorCritic()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
best = torch.randn(4, 3)
for step in range(steps):
    state = torch.randn(64, 4)
    probabilities, value = model(state)
    policy = torch.distributions.Categorical(probabilities)
    action = policy.sample()
    reward = (state @ best).gather(1, action[:, None])[:, 0] / 2 + 0.1 * torch.randn(64)
    advantage = reward - value.detach()[:, 0]
    actor_loss = -(policy.log_prob(action) * advantage).mean()
    critic_loss = nn.functional.smooth_l1_loss(value[:, 0], reward)
    loss = actor_loss + 0.5 * critic_loss - 0.01 * policy.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    if step % 50 == 0:
        print(step, reward.mean().item())
