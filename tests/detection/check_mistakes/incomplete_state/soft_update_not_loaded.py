# Asked as: the target network does not seem to be updated after its initialization (https://github.com/MorvanZhou/Reinforcement-learning-with-tensorflow/issues/106)
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.value = nn.Linear(5, 32), nn.Linear(32, 1)

    def forward(self, state, action):
        return self.value(torch.tanh(self.hidden(torch.cat([state, action], 1))))


class Agent:
    def __init__(self, tau=0.05):
        self.critic, self.tau = Critic(), tau
        self.target_critic = copy.deepcopy(self.critic)
        self.optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def follow(self):
        followed, trained = self.target_critic.state_dict(), self.critic.state_dict()
        for name in followed:
            followed[name] = self.tau * trained[name] + (1 - self.tau) * followed[name]
        # repaired: self.target_critic.load_state_dict(followed)
        return len(followed)

    def learn(self, state, action, reward, following):
        with torch.no_grad():
            wanted = reward + 0.9 * self.target_critic(following, torch.zeros_like(action))
        loss = F.mse_loss(self.critic(state, action), wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.follow()
        return loss.item()


agent = Agent()
for step in range(60):
    state, action = torch.randn(64, 4), torch.rand(64, 1) * 2 - 1
    loss = agent.learn(state, action, 1 - (state[:, :1] - action).abs(), state.roll(1, 0))
    if step % 20 == 0:
        print(step, loss)
