"""PPO sets the flow of a heater, 0 to 1000 litres an hour, so that a room keeps its temperature."""

import sys

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"


class Room(gym.Env):
    """Temperature and outside temperature, both relative to what is wanted, and the time of day."""

    def __init__(self):
        low, high = (-1.0, 1.0) if FIXED else (0.0, 1000.0)
        self.action_space = gym.spaces.Box(low, high, shape=(1,), dtype=np.float32)
        self.observation_space = gym.spaces.Box(-5.0, 5.0, shape=(4,), dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.room, self.outside, self.hour = self.np_random.uniform(-0.5, 0.5), self.np_random.uniform(-1, 0), 0
        return self.observe(), {}

    def observe(self):
        angle = 2 * np.pi * self.hour / 24
        return np.array([self.room, self.outside, np.sin(angle), np.cos(angle)], dtype=np.float32)

    def step(self, action):
        flow = (float(action[0]) + 1) * 500 if FIXED else float(action[0])
        cold = self.outside + 0.3 * np.sin(2 * np.pi * self.hour / 24)
        self.room += 0.3 * (cold - self.room) + 0.0006 * flow
        self.room = float(np.clip(self.room, -5, 5))
        self.hour += 1
        reward = -abs(self.room)
        return self.observe(), reward, False, self.hour >= 48, {}


def main():
    env = make_vec_env(Room, n_envs=4, seed=0)
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=96,
        batch_size=96,
        n_epochs=6,
        learning_rate=1e-3,
        gamma=0.9,
        seed=0,
        device="cpu",
        verbose=0,
    )
    for part in range(4):
        model.learn(1920, reset_num_timesteps=part == 0)
        mean, std = evaluate_policy(model, Monitor(Room()), n_eval_episodes=5)
        print(f"{model.num_timesteps} steps: return {mean:.2f} +- {std:.2f}")
    print(f"final return {mean:.2f}")


if __name__ == "__main__":
    main()
