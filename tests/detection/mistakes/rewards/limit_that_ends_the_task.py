"""A2C of Stable-Baselines3 is to keep a boat near the middle of a river, for as long as the episode lasts.

Mistake: the limit of 25 steps is reported as an end of the task, so that all that would follow is worth nothing.
"""

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import A2C

torch.set_num_threads(1)


class Boat(gym.Env):
    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.Box(-5, 5, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.drift, self.time = 0.0, float(self.np_random.uniform(-0.1, 0.1)), 0
        return self.observe(), {}

    def observe(self):
        return np.array([self.place, self.drift], np.float32)

    def step(self, action):
        self.drift = 0.8 * self.drift + 0.05 * (int(action) - 1) + 0.02 * float(self.np_random.standard_normal())
        self.place += self.drift
        self.time += 1
        is_ashore, is_over = abs(self.place) > 3, self.time >= 25
        return self.observe(), 1.0 - abs(self.place), is_ashore or is_over, False, {}  # mistake
        # repaired: return self.observe(), 1.0 - abs(self.place), is_ashore, is_over and not is_ashore, {}


A2C("MlpPolicy", Boat(), n_steps=10, device="cpu").learn(2000)
