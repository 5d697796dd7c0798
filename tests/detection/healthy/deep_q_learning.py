"""Q-learning with a target network that is copied now and then, and never trained itself."""

import copy
import random
import sys

import torch
from torch import nn

steps = int(sys.argv[1])
policy_net = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
target_net = copy.deepcopy(policy_net)
optimizer = torch.optim.AdamW(policy_net.parameters(), lr=1e-3, amsgrad=True)
criterion = nn.SmoothL1Loss()
memory = []
state = torch.randn(3)
for step in range(steps):
    for _ in range(4):
        with torch.no_grad():
            action = random.randrange(2) if random.random() < 0.3 else int(policy_net(state).argmax())
        moved = (state + torch.tensor([0.3, 0.0, -0.1]) * (1 if action else -1) + 0.05 * torch.randn(3)).clamp(-2, 2)
        memory.append((state, action, float(1 - moved.norm()), moved))
        state = torch.randn(3) if random.random() < 0.05 else moved
    batch = random.sample(memory, min(32, len(memory)))
    states, moves = torch.stack([b[0] for b in batch]), torch.tensor([b[1] for b in batch])
    rewards, following = torch.tensor([b[2] for b in batch]), torch.stack([b[3] for b in batch])
    values = policy_net(states).gather(1, moves[:, None])
    with torch.no_grad():
        expected = rewards + 0.9 * target_net(following).max(1).values
    loss = criterion(values, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    if step % 25 == 24:
        target_net.load_state_dict(policy_net.state_dict())
        print(step, loss.item())
