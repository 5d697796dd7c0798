"""A2C with GAE, written by hand, on many copies of a pole balancing task."""

import sys

import numpy as np
import torch
from torch import nn

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
rng = np.random.default_rng(0)


class Poles:
    """CartPole's equations for n carts at once, with a reset of each that falls."""

    def __init__(self, n):
        self.state = rng.uniform(-0.05, 0.05, (n, 4))
        self.age = np.zeros(n, int)
        self.finished = []

    def step(self, action):
        x, v, a, w = self.state.T
        force = np.where(action == 1, 10.0, -10.0)
        temp = (force + 0.05 * w**2 * np.sin(a)) / 1.1
        acc_a = (9.8 * np.sin(a) - np.cos(a) * temp) / (0.5 * (4 / 3 - 0.1 * np.cos(a) ** 2 / 1.1))
        acc_x = temp - 0.05 * acc_a * np.cos(a) / 1.1
        self.state = np.stack([x + 0.02 * v, v + 0.02 * acc_x, a + 0.02 * w, w + 0.02 * acc_a], 1)
        self.age += 1
        done = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.21)
        self.finished += self.age[done].tolist()
        self.age[done] = 0
        self.state[done] = rng.uniform(-0.05, 0.05, (done.sum(), 4))
        return self.state.copy(), np.ones(len(done)), done


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 64), nn.Tanh())
        self.policy = nn.Linear(64, 2)
        self.value = nn.Linear(64, 1)

    def forward(self, obs):
        hidden = self.body(obs)
        return torch.distributions.Categorical(logits=self.policy(hidden)), self.value(hidden).squeeze(-1)


def gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95):
    advantages = torch.zeros_like(rewards)
    running = torch.zeros_like(last_value)
    for t in reversed(range(len(rewards))):
        alive = 1.0 - dones[t] if FIXED else 1.0 - dones[min(t + 1, len(rewards) - 1)]
        following = last_value if t == len(rewards) - 1 else values[t + 1]
        delta = rewards[t] + gamma * following * alive - values[t]
        running = delta + gamma * lam * alive * running
        advantages[t] = running
    return advantages


def main():
    env, agent = Poles(32), ActorCritic()
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
    obs = torch.tensor(env.state, dtype=torch.float32)
    for update in range(150):
        log_probs, values, rewards, dones, entropies = [], [], [], [], []
        for _ in range(16):
            policy, value = agent(obs)
            action = policy.sample()
            nxt, reward, done = env.step(action.numpy())
            log_probs.append(policy.log_prob(action))
            entropies.append(policy.entropy())
            values.append(value)
            rewards.append(torch.tensor(reward, dtype=torch.float32))
            dones.append(torch.tensor(done, dtype=torch.float32))
            obs = torch.tensor(nxt, dtype=torch.float32)
        with torch.no_grad():
            last_value = agent(obs)[1]
        log_probs, values, rewards, dones = (torch.stack(s) for s in (log_probs, values, rewards, dones))
        advantages = gae(rewards, values.detach(), dones, last_value)
        returns = advantages + values.detach()
        normal = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        policy_loss = -(log_probs * normal).mean()
        value_loss = nn.functional.smooth_l1_loss(values, returns)
        loss = policy_loss + 0.5 * value_loss - 0.01 * torch.stack(entropies).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()
        if update % 15 == 0:
            recent = env.finished[-50:]
            print(f"update {update}  loss {loss.item():.3f}  episode length {np.mean(recent or [0]):.1f}")
    print(f"final episode length {np.mean(env.finished[-50:]):.1f}")


if __name__ == "__main__":
    main()
