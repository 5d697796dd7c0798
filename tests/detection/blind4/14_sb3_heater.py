"""PPO regulates the heater of a greenhouse by its power in watts."""

import sys

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.set_num_threads(1)
MAX_POWER = 2000.0


class Greenhouse(gym.Env):
    """The temperature falls towards that outside and rises with the heater's power."""

    def __init__(self):
        self.observation_space = spaces.Box(-3.0, 3.0, (3,), np.float32)
        if FIXED:
            self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        else:
            self.action_space = spaces.Box(0.0, MAX_POWER, (1,), np.float32)

    def _observe(self):
        values = [(self.temperature - 20) / 10, (self.outside - 5) / 10, (self.target - 20) / 10]
        return np.clip(np.array(values, np.float32), -3, 3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.outside = self.np_random.uniform(0, 10)
        self.target = self.np_random.uniform(18, 24)
        self.temperature = self.target + self.np_random.uniform(-3, 3)
        self.steps = 0
        return self._observe(), {}

    def step(self, action):
        power = float(action[0])
        if FIXED:
            power = (power + 1) / 2 * MAX_POWER
        self.temperature += 0.2 * (self.outside - self.temperature) + 0.004 * power
        self.outside += self.np_random.normal(0, 0.2)
        self.steps += 1
        error = abs(self.temperature - self.target)
        reward = 1.0 - min(error, 5.0) / 2.5
        return self._observe(), reward, False, self.steps >= 40, {}


def main():
    env = make_vec_env(Greenhouse, n_envs=4, seed=0)
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=128,
        batch_size=128,
        n_epochs=6,
        learning_rate=1e-3,
        gamma=0.9,
        seed=0,
        device="cpu",
    )
    test_env = make_vec_env(Greenhouse, n_envs=1, seed=1000)
    for _ in range(6):
        model.learn(total_timesteps=5120, reset_num_timesteps=False)
        mean, std = evaluate_policy(model, test_env, n_eval_episodes=10, deterministic=True)
        print(f"{model.num_timesteps} steps: reward {mean:.2f} +- {std:.2f}")
    observation = np.array([[0.0, 0.0, 0.0]], np.float32)
    action, _ = model.predict(observation, deterministic=True)
    print("action in the middle of the range:", action[0])
    mean, _ = evaluate_policy(model, test_env, n_eval_episodes=30, deterministic=True)
    print(f"final mean reward of 40 possible {mean:.2f}")


if __name__ == "__main__":
    main()
