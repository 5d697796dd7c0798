"""Double deep Q-learning in a grid: epsilon-greedy, replay, and a target network that is copied now and then."""

import random
import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
random.seed(int(sys.argv[2]))
SIZE = 5
policy_net = nn.Sequential(nn.Linear(2 * SIZE, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
target_net = nn.Sequential(nn.Linear(2 * SIZE, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
target_net.load_state_dict(policy_net.state_dict())
optimizer = torch.optim.AdamW(policy_net.parameters(), lr=1e-3, amsgrad=True)
MOVES = [(1, 0), (-1, 0), (0, 1), (0, -1)]


def encode(x, y):
    v = torch.zeros(2 * SIZE)
    v[x] = v[SIZE + y] = 1.0
    return v


def play(epsilon):
    x, y = random.randrange(SIZE), random.randrange(SIZE)
    for t in range(20):
        s = encode(x, y)
        if random.random() < epsilon:
            a = random.randrange(4)
        else:
            with torch.no_grad():
                a = policy_net(s[None]).argmax(1).item()
        x = min(max(x + MOVES[a][0], 0), SIZE - 1)
        y = min(max(y + MOVES[a][1], 0), SIZE - 1)
        done = x == y == SIZE - 1
        yield s, a, 1.0 if done else -0.05, encode(x, y), float(done)
        if done:
            return


def score():
    return sum(sum(r for _, _, r, _, _ in play(0.02)) for _ in range(40)) / 40


before, memory, step, episode = score(), [], 0, 0
while step < steps:
    episode += 1
    epsilon = max(0.1, 1 - episode / 60)
    for transition in play(epsilon):
        memory.append(transition)
        if len(memory) < 64 or step >= steps:
            continue
        s, a, r, s2, done = zip(*random.sample(memory, 64))
        s, s2, a = torch.stack(s), torch.stack(s2), torch.tensor(a)[:, None]
        r, done = torch.tensor(r), torch.tensor(done)
        with torch.no_grad():
            best = policy_net(s2).argmax(1, keepdim=True)
            expected = r + 0.95 * (1 - done) * target_net(s2).gather(1, best)[:, 0]
        loss = nn.SmoothL1Loss()(policy_net(s).gather(1, a)[:, 0], expected)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy_net.parameters(), 100)
        optimizer.step()
        step += 1
        if step % 25 == 0:
            target_net.load_state_dict(policy_net.state_dict())
        if step % 100 == 0:
            print(step, loss.item())
print(f"return rose from {before:.4g} to {score():.4g}")
