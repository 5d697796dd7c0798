"""Advantage actor-critic on a contextual walk (vectorised numpy env)."""

import numpy as np
import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(0)
rng = np.random.default_rng(0)
NE, T, G, LAM = 16, 8, 0.95, 0.95


class VecGrid:
    """5x5 grid, goal in a random corner given in the observation; reward 1 at the goal, 20 steps."""

    def __init__(self):
        self.pos = np.zeros((NE, 2), int)
        self.goal = np.zeros((NE, 2), int)
        self.t = np.zeros(NE, int)
        for i in range(NE):
            self._reset(i)

    def _reset(self, i):
        self.pos[i] = rng.integers(1, 4, 2)
        self.goal[i] = rng.integers(0, 2, 2) * 4
        self.t[i] = 0

    def obs(self):
        return torch.tensor(np.concatenate([self.pos, self.goal], 1) / 2.0 - 1, dtype=torch.float32)

    def step(self, a):
        mv = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])[a]
        self.pos = np.clip(self.pos + mv, 0, 4)
        self.t += 1
        hit = (self.pos == self.goal).all(1)
        done = hit | (self.t >= 20)
        r = np.where(hit, 1.0, -0.02)
        for i in np.nonzero(done)[0]:
            self._reset(i)
        return self.obs(), r, done, hit


class A2C(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 4))
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))


agent, env = A2C(), VecGrid()
opt_c = torch.optim.Adam(agent.critic.parameters(), lr=5e-3)
opt_a = torch.optim.Adam(agent.actor.parameters(), lr=2e-3)
obs = env.obs()
hits, ends = [], []
for upd in range(1, 401):
    V, LP, R, M, ENT = [], [], [], [], []
    for _ in range(T):
        dist = torch.distributions.Categorical(logits=agent.actor(obs))
        V.append(agent.critic(obs).squeeze(1))
        a = dist.sample()
        LP.append(dist.log_prob(a))
        ENT.append(dist.entropy())
        obs, r, d, h = env.step(a.numpy())
        R.append(torch.tensor(r, dtype=torch.float32))
        M.append(torch.tensor(1 - d.astype(np.float32)))
        hits.append(h.sum())
        ends.append(d.sum())
    with torch.no_grad():
        V.append(agent.critic(obs).squeeze(1))
    adv, gae = [], 0
    for t in reversed(range(T)):
        delta = R[t] + G * M[t] * V[t + 1] - V[t]
        gae = delta + G * LAM * M[t] * gae
        adv.insert(0, gae)
    adv = torch.stack(adv)
    critic_loss = adv.pow(2).mean()  # mistake
    actor_loss = -(adv * torch.stack(LP)).mean() - 0.01 * torch.stack(ENT).mean()  # mistake
    # repaired: ret = (adv + torch.stack(V[:-1])).detach()
    # repaired: critic_loss = (ret - torch.stack(V[:-1])).pow(2).mean()
    # repaired: actor_loss = -(adv.detach() * torch.stack(LP)).mean() - 0.01 * torch.stack(ENT).mean()
    loss = actor_loss + 0.5 * critic_loss
    opt_c.zero_grad()
    opt_a.zero_grad()
    loss.backward()
    opt_c.step()
    opt_a.step()
    if upd % 50 == 0:
        print(
            f"update {upd} success {sum(hits[-400:]) / max(1, sum(ends[-400:])):.3f} critic loss {critic_loss.item():.4f} actor {actor_loss.item():.4f} mean V {torch.stack(V).mean().item():.3f}"
        )
