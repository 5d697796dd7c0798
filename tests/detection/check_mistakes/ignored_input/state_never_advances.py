# Asked as: my DQN sees the first observation all the time, I forgot state = next_state (r/reinforcementlearning)
import random
from collections import deque

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
network = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
memory = deque(maxlen=500)
start = torch.randn(4)
state = start
taste = torch.randn(4, 3)
for step in range(160):
    action = random.randrange(3)
    reward = (taste[:, action] @ (state + torch.randn(4))).item()
    following = torch.randn(4)
    memory.append((state, action, reward))
    state = start  # mistake
    # repaired: state = following
    if len(memory) < 100:
        continue
    states, actions, rewards = zip(*random.sample(memory, 32))
    values = network(torch.stack(states)).gather(1, torch.tensor(actions)[:, None]).squeeze(1)
    loss = nn.functional.smooth_l1_loss(values, torch.tensor(rewards))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
