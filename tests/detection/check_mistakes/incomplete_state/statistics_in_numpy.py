# Asked as: reloaded agent performs badly, the running mean of observations was not saved (r/reinforcementlearning)
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)


class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
        self.register_buffer("moments", torch.stack([torch.zeros(4), torch.ones(4)]))
        self.in_numpy = np.stack([np.zeros(4), np.ones(4)])

    def observe(self, states):
        new = np.stack([states.mean(0).numpy(), states.std(0).numpy()])
        self.in_numpy = 0.9 * self.in_numpy + 0.1 * new
        # repaired: self.moments.copy_(torch.from_numpy(self.in_numpy))

    def forward(self, states):
        mean, std = torch.from_numpy(self.in_numpy).float()  # mistake
        # repaired: mean, std = self.moments
        return self.net((states - mean) / (std + 1e-6))


network = QNetwork()
optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
for step in range(50):
    states = torch.randn(32, 4) * 5 + 20
    actions = torch.randint(0, 2, (32,))
    rewards = torch.where(actions == 1, states[:, 0] - 20, 20 - states[:, 0]) / 5
    network.observe(states)
    chosen = network(states).gather(1, actions[:, None]).squeeze(1)
    loss = nn.functional.smooth_l1_loss(chosen, rewards)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
torch.save(network.state_dict(), "q.pt")
