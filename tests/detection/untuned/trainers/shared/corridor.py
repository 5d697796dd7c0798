"""A small environment of Gymnasium: an agent in a corridor, whose end pays."""

import sys

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.monitor import Monitor

STEPS = int(sys.argv[1])
SEED = int(sys.argv[2])
torch.set_num_threads(1)


class Corridor(gym.Env):
    """The agent is to reach the right end; actions are two directions, or a number from -1 to 1."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, *, is_continuous=False):
        self.is_continuous = is_continuous
        self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32) if is_continuous else gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = float(self.np_random.uniform(0, 5)), 0
        return self.observe(), {}

    def observe(self):
        return np.array([self.place / 10, self.time / 30], np.float32)

    def step(self, action):
        move = float(np.asarray(action).reshape(-1)[0]) if self.is_continuous else (1.0 if action == 1 else -1.0)
        self.place, self.time = min(max(self.place + move, 0), 10), self.time + 1
        is_done = self.place >= 10
        return self.observe(), 5.0 if is_done else -0.2, is_done, self.time >= 30, {}


def train(make, steps, *, is_continuous=False, **settings):
    """Train an agent, and print how its returns went."""
    environment = Monitor(Corridor(is_continuous=is_continuous))
    agent = make("MlpPolicy", environment, seed=SEED, device="cpu", **settings)
    agent.learn(steps, log_interval=4)
    returns = environment.get_episode_rewards()
    count = max(len(returns) // 5, 1)
    print(f"return rose from {sum(returns[:count]) / count:.4g} to {sum(returns[-count:]) / count:.4g}")
