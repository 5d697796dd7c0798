# Asked as: actor-critic, value loss does not fall; the optimizer has only actor.parameters() (r/reinforcementlearning)
import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
        self.log_std = nn.Parameter(torch.zeros(1))
        self.critic = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, state):
        return Normal(self.actor(state), self.log_std.exp()), self.critic(state)


agent = ActorCritic()
learned = [*agent.actor.parameters(), agent.log_std]  # mistake
# repaired: learned = agent.parameters()
optimizer = torch.optim.Adam(learned, lr=3e-3)
for step in range(50):
    state = torch.randn(64, 3)
    policy, value = agent(state)
    action = policy.sample()
    reward = 2 - (action - state[:, :1]) ** 2
    advantage = (reward - value).detach()
    loss = -(policy.log_prob(action) * advantage).mean() + 0.5 * nn.functional.mse_loss(value, reward)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
    optimizer.step()
    if step % 10 == 0:
        print(step, reward.mean().item())
