"""PPO of Stable-Baselines3 is to set the height of a blind, from 0 to 2500 mm, so that a room has the light it needs.

Mistake: the action space is in millimetres, of which the first policy tries only the first few.
"""

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO

torch.set_num_threads(1)


class Blind(gym.Env):
    action_space = gym.spaces.Box(0, 2500, (1,), np.float32)  # mistake
    # repaired: action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observe(), {}

    def observe(self):
        self.sun, self.wanted = self.np_random.uniform(0, 1, 2)
        return np.array([self.sun, self.wanted], np.float32)

    def step(self, action):
        share = float(action[0]) / 2500  # mistake
        # repaired: share = (float(action[0]) + 1) / 2
        reward = -abs(self.sun * share - self.wanted)
        self.time += 1
        return self.observe(), reward, False, self.time >= 30, {}


PPO("MlpPolicy", Blind(), n_steps=64, batch_size=64, n_epochs=2, device="cpu").learn(1536)
