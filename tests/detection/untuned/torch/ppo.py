"""PPO: rollouts of parallel environments under no_grad, generalized advantages, four epochs of clipped updates."""

import sys

import torch
from torch import nn
from torch.distributions import Categorical

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
ENVS, HORIZON = 8, 16


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
        nn.init.orthogonal_(self.actor[-1].weight, 0.01)

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


moves = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]]) * 0.2
place, goal = torch.rand(ENVS, 2) * 2 - 1, torch.rand(ENVS, 2) * 2 - 1


def env_step(action):
    global place, goal
    before = (place - goal).norm(dim=1)
    place = (place + moves[action]).clamp(-1, 1)
    after = (place - goal).norm(dim=1)
    done = (after < 0.2) | (torch.rand(ENVS) < 0.02)
    reward = before - after + (after < 0.2).float()
    place = torch.where(done[:, None], torch.rand(ENVS, 2) * 2 - 1, place)
    goal = torch.where(done[:, None], torch.rand(ENVS, 2) * 2 - 1, goal)
    return torch.cat([place, goal], 1), reward, done.float()


agent = Agent()
updates = max(8, steps // 16)
optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3, eps=1e-5)
obs = torch.cat([place, goal], 1)
returns_seen = []
for update in range(updates):
    optimizer.param_groups[0]["lr"] = (1.0 - update / updates) * 1e-3
    store = []
    for _ in range(HORIZON):
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(obs)
        following, reward, done = env_step(action)
        store.append((obs, action, logprob, value[:, 0], reward, done))
        obs = following
    b_obs, b_act, b_logp, b_val, b_rew, b_done = map(torch.stack, zip(*store))
    with torch.no_grad():
        next_value, last = agent.critic(obs)[:, 0], torch.zeros(ENVS)
        advantages = torch.zeros(HORIZON, ENVS)
        for t in reversed(range(HORIZON)):
            delta = b_rew[t] + 0.95 * next_value * (1 - b_done[t]) - b_val[t]
            last = advantages[t] = delta + 0.95 * 0.95 * (1 - b_done[t]) * last
            next_value = b_val[t]
        returns = advantages + b_val
    flat = [t.reshape(-1, *t.shape[2:]) for t in (b_obs, b_act, b_logp, advantages, returns, b_val)]
    for epoch in range(4):
        for mb in torch.randperm(ENVS * HORIZON).chunk(4):
            o, a, old, adv, ret, val = (t[mb] for t in flat)
            _, new, entropy, newvalue = agent.get_action_and_value(o, a)
            ratio = (new - old).exp()
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            pg_loss = torch.max(-adv * ratio, -adv * ratio.clamp(0.8, 1.2)).mean()
            newvalue = newvalue[:, 0]
            v_clipped = val + (newvalue - val).clamp(-0.2, 0.2)
            v_loss = 0.5 * torch.max((newvalue - ret) ** 2, (v_clipped - ret) ** 2).mean()
            loss = pg_loss - 0.01 * entropy.mean() + 0.5 * v_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    returns_seen.append(b_rew.mean().item())
    if update % 5 == 0:
        print(f"update {update}: reward {returns_seen[-1]:.4f}")
third = max(1, updates // 5)
print(f"reward rose from {sum(returns_seen[:third]) / third:.4g} to {sum(returns_seen[-third:]) / third:.4g}")
