"""TD3: the policy is updated at every second step of the critics, its targets with clipped noise."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
actor = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh())
critic = nn.ModuleList(nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1)) for _ in range(2))
actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=3e-3)


def env(s, a):
    x = (s[:, :1] + 0.3 * a + 0.1 * s[:, 1:2]).clamp(-2, 2)
    return torch.cat([x, s[:, 1:]], 1), -(x - s[:, 2:]).abs()


def evaluate():
    g = torch.Generator().manual_seed(3)
    s, total = torch.rand(64, 3, generator=g) * 2 - 1, 0.0
    with torch.no_grad():
        for _ in range(10):
            s, r = env(s, actor(s))
            total += r.mean().item()
    return total


before = evaluate()
with torch.no_grad():
    s = torch.rand(512, 3) * 2 - 1
    a = torch.rand(512, 1) * 2 - 1
memory = [(s, a, *env(s, a))]
for t in range(steps):
    with torch.no_grad():
        s = torch.rand(8, 3) * 2 - 1
        a = (actor(s) + 0.2 * torch.randn(8, 1)).clamp(-1, 1)
    memory.append((s, a, *env(s, a)))
    S, A, S2, R = (torch.cat(parts) for parts in zip(*memory[-64:]))
    index = torch.randint(len(S), (64,))
    S, A, S2, R = S[index], A[index], S2[index], R[index]
    with torch.no_grad():
        noise = (0.2 * torch.randn_like(A)).clamp(-0.5, 0.5)
        A2 = (actor_target(S2) + noise).clamp(-1, 1)
        target = R + 0.9 * torch.min(*(q(torch.cat([S2, A2], 1)) for q in critic_target))
    critic_loss = sum(F.mse_loss(q(torch.cat([S, A], 1)), target) for q in critic)
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
    if t % 2 == 1:
        actor_loss = -critic[0](torch.cat([S, actor(S)], 1)).mean()
        actor_opt.zero_grad()
        actor_loss.backward()
        actor_opt.step()
        for net, old in ((critic, critic_target), (actor, actor_target)):
            for p, q in zip(net.parameters(), old.parameters()):
                q.data.copy_(0.02 * p.data + 0.98 * q.data)
    if t % 50 == 0:
        print(t, critic_loss.item())
print(f"return rose from {before:.4g} to {evaluate():.4g}")
