# Asked as: my DQN diverges although I update the target network only every 500 steps (StackOverflow)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Agent:
    def __init__(self):
        self.online = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
        self.target = self.online  # mistake
        # repaired: self.target = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=1e-3)

    def learn(self, state, action, reward, following):
        value = self.online(state).gather(1, action)
        with torch.no_grad():
            wanted = reward + 0.9 * self.target(following).amax(1, keepdim=True)
        loss = F.smooth_l1_loss(value, wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


agent = Agent()
for step in range(60):
    state = torch.randn(32, 6)
    action = torch.randint(0, 3, (32, 1))
    loss = agent.learn(state, action, state[:, :1] * (action - 1), state.roll(1, 1))
    if step % 20 == 0:
        agent.target.load_state_dict(agent.online.state_dict())
        print(step, loss)
