"""DQN in an own loop: balance a ball on a beam."""

import random
import sys
from collections import deque

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
random.seed(0)
torch.manual_seed(0)


class Beam:
    """The ball rolls; the beam tilts left, not at all, or right. It falls beyond one."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.state = np.zeros(2, dtype=np.float32)

    def reset(self):
        self.state[:] = self.rng.uniform(-0.4, 0.4, 2)
        self.steps = 0
        return self.state

    def step(self, action):
        self.state[1] += 0.15 * (action - 1) + 0.1 * self.state[0] + self.rng.normal(0, 0.02)
        self.state[0] += 0.2 * self.state[1]
        self.steps += 1
        fell = bool(abs(self.state[0]) > 1)
        return self.state, 1.0 - float(abs(self.state[0])), fell, self.steps >= 100


class ReplayBuffer:
    def __init__(self, size):
        self.memory = deque(maxlen=size)

    def push(self, state, action, reward, next_state, done):
        if FIXED:
            state, next_state = state.copy(), next_state.copy()
        self.memory.append((state, action, reward, next_state, done))

    def sample(self, n):
        state, action, reward, next_state, done = zip(*random.sample(self.memory, n))
        return (
            torch.from_numpy(np.stack(state)),
            torch.tensor(action),
            torch.tensor(reward),
            torch.from_numpy(np.stack(next_state)),
            torch.tensor(done, dtype=torch.float32),
        )


def q_network():
    return nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))


def main():
    env, buffer = Beam(0), ReplayBuffer(10000)
    online, target = q_network(), q_network()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    steps, returns = 0, []
    for episode in range(120):
        state, done, total = env.reset(), False, 0.0
        if FIXED:
            state = state.copy()
        while not done:
            if random.random() < max(0.05, 1 - steps / 1500):
                action = random.randrange(3)
            else:
                with torch.no_grad():
                    action = online(torch.from_numpy(state)[None]).argmax().item()
            next_state, reward, fell, over = env.step(action)
            buffer.push(state, action, reward, next_state, fell)
            state, done = next_state.copy() if FIXED else next_state, fell or over
            total, steps = total + reward, steps + 1
            if steps > 200 and steps % 2 == 0:
                s, a, r, s2, d = buffer.sample(64)
                with torch.no_grad():
                    goal = r + 0.98 * (1 - d) * target(s2).max(1).values
                loss = F.smooth_l1_loss(online(s).gather(1, a[:, None])[:, 0], goal)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if steps % 200 == 0:
                target.load_state_dict(online.state_dict())
            if steps >= 6000:
                break
        returns.append(total)
        if episode % 20 == 19:
            print(f"episode {episode}  steps {steps}  return {np.mean(returns[-20:]):.1f}  loss {loss.item():.4f}")
        if steps >= 6000:
            break
    print(f"mean return of the last ten episodes {np.mean(returns[-10:]):.1f}")


if __name__ == "__main__":
    main()
