"""DQN for a point that must be steered to the origin; list replay buffer."""

import random

import numpy as np
import torch
import torch.nn as nn

torch.set_num_threads(1)
random.seed(1)
np.random.seed(1)
torch.manual_seed(1)


class PointEnv:
    def __init__(self):
        self.state = np.zeros(2, dtype=np.float32)

    def reset(self):
        self.state[:] = np.random.uniform(-1, 1, 2)
        self.t = 0
        return self.state  # mistake
        # repaired: return self.state.copy()

    def step(self, a):
        self.state[a // 2] += 0.15 if a % 2 else -0.15
        np.clip(self.state, -1.5, 1.5, out=self.state)
        self.t += 1
        dist = float(np.linalg.norm(self.state))
        return self.state, -dist, self.t >= 25, {}  # mistake
        # repaired: return self.state.copy(), -dist, self.t >= 25, {}


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, x):
        return self.net(x)


q, tgt = QNet(), QNet()
tgt.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), lr=2e-3)
env, memory = PointEnv(), []
gamma, step = 0.9, 0
returns = []
for ep in range(50):
    s = env.reset()
    total = 0.0
    for _ in range(25):
        eps = max(0.1, 1 - step / 500)
        if random.random() < eps:
            a = random.randrange(4)
        else:
            with torch.no_grad():
                a = int(q(torch.tensor(s)[None]).argmax())
        s2, r, done, _ = env.step(a)
        memory.append((s, a, r, s2, done))
        s = s2
        total += r
        step += 1
        if len(memory) > 200 and step % 2 == 0:
            batch = random.sample(memory, 64)
            bs = torch.tensor(np.stack([b[0] for b in batch]))
            ba = torch.tensor([b[1] for b in batch])
            br = torch.tensor([b[2] for b in batch])
            bs2 = torch.tensor(np.stack([b[3] for b in batch]))
            with torch.no_grad():
                y = br + gamma * tgt(bs2).max(1).values
            loss = nn.functional.smooth_l1_loss(q(bs).gather(1, ba[:, None]).squeeze(1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 100 == 0:
                tgt.load_state_dict(q.state_dict())
    returns.append(total)
    if (ep + 1) % 10 == 0:
        print(f"ep {ep + 1}: mean return {np.mean(returns[-10:]):.2f} loss {loss.item():.4f}")
