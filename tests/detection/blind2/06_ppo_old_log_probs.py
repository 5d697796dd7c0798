"""PPO, written by hand, on a walk over a grid with pits."""

import sys

import numpy as np
import torch
from torch import nn

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(1)
rng = np.random.default_rng(1)

SIZE, COPIES, HORIZON = 6, 16, 24
MOVES = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
PITS = {(1, 2), (2, 2), (4, 3), (3, 4)}


class Grid:
    """Reach the far corner (+1); a pit costs 1, a step 0.02."""

    def __init__(self):
        self.place = np.zeros((COPIES, 2), int)
        self.age = np.zeros(COPIES, int)
        self.returns, self.total = [], np.zeros(COPIES)

    def observe(self):
        return torch.tensor(np.eye(SIZE)[self.place].reshape(COPIES, -1), dtype=torch.float32)

    def step(self, action):
        self.place = np.clip(self.place + MOVES[action], 0, SIZE - 1)
        self.age += 1
        goal = (self.place == SIZE - 1).all(1)
        pit = np.array([tuple(p) in PITS for p in self.place])
        reward = goal * 1.0 - pit * 1.0 - 0.02
        done = goal | pit | (self.age >= 40)
        self.total += reward
        self.returns += self.total[done].tolist()
        self.total[done], self.age[done], self.place[done] = 0, 0, 0
        return reward, done


def network(outputs):
    return nn.Sequential(nn.Linear(2 * SIZE, 48), nn.Tanh(), nn.Linear(48, outputs))


def main():
    env, actor, critic = Grid(), network(4), network(1)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2)
    for update in range(50):
        observations, actions, log_probs, rewards, dones = [], [], [], [], []
        for _ in range(HORIZON):
            obs = env.observe()
            with torch.no_grad():
                policy = torch.distributions.Categorical(logits=actor(obs))
                action = policy.sample()
            reward, done = env.step(action.numpy())
            observations.append(obs)
            actions.append(action)
            log_probs.append(policy.log_prob(action))
            rewards.append(torch.tensor(reward, dtype=torch.float32))
            dones.append(torch.tensor(done, dtype=torch.float32))
        with torch.no_grad():
            values = critic(torch.stack(observations)).squeeze(-1)
            following = critic(env.observe()).squeeze(-1)
        advantages, running = torch.zeros(HORIZON, COPIES), torch.zeros(COPIES)
        for t in reversed(range(HORIZON)):
            alive = 1 - dones[t]
            running = rewards[t] + 0.97 * following * alive - values[t] + 0.97 * 0.95 * alive * running
            advantages[t], following = running, values[t]
        obs, acts = torch.stack(observations).flatten(0, 1), torch.stack(actions).flatten()
        recorded = torch.stack(log_probs).flatten()
        adv, returns = advantages.flatten(), (advantages + values).flatten()
        for _ in range(8):
            for batch in torch.randperm(len(acts)).split(128):
                policy = torch.distributions.Categorical(logits=actor(obs[batch]))
                new = policy.log_prob(acts[batch])
                old = recorded[batch] if FIXED else new.detach()
                ratio = (new - old).exp()
                a = (adv[batch] - adv[batch].mean()) / (adv[batch].std() + 1e-8)
                surrogate = torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
                value_loss = (critic(obs[batch]).squeeze(-1) - returns[batch]).pow(2).mean()
                loss = -surrogate + 0.5 * value_loss - 0.01 * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        if update % 5 == 0:
            print(f"update {update}  loss {loss.item():.3f}  return {np.mean(env.returns[-60:]):.3f}")
    print(f"final return {np.mean(env.returns[-100:]):.3f}")


if __name__ == "__main__":
    main()
