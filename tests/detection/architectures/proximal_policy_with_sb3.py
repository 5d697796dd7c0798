"""PPO of Stable-Baselines3 on a small environment of its own."""

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO


class Corridor(gym.Env):
    """The agent walks to the right end of a corridor."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = int(self.np_random.integers(0, 5)), 0
        return self.observe(), {}

    def observe(self):
        return np.array([self.place / 10, self.time / 30, 1 - self.place / 10], np.float32)

    def step(self, action):
        self.place, self.time = max(self.place + (1 if action == 1 else -1), 0), self.time + 1
        done = self.place >= 10
        return self.observe(), 0.1 if action == 1 else -0.1, done, self.time >= 30, {}


agent = PPO("MlpPolicy", Corridor(), n_steps=128, batch_size=32, n_epochs=4, learning_rate=1e-3, seed=0, device="cpu")
agent.learn(640)
rewards = []
for _ in range(3):
    observation, _ = agent.get_env().envs[0].reset()
    total, ended = 0.0, False
    while not ended:
        action, _ = agent.predict(observation, deterministic=True)
        observation, reward, done, late, _ = agent.get_env().envs[0].step(int(action))
        total, ended = total + reward, done or late
    rewards.append(total)
print("rewards", rewards)
