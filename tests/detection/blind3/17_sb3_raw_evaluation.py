"""PPO on a custom environment with normalized observations, evaluated in an environment of its own."""

import sys

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.set_num_threads(1)


class Tank(gym.Env):
    """Hold the level of a tank at its goal; level and goal are in litres."""

    observation_space = gym.spaces.Box(-1e6, 1e6, (3,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def _observation(self):
        return np.array([self.level, self.goal, self.level - self.goal], dtype=np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.level, self.goal = self.np_random.uniform(400, 900, 2)
        self.steps = 0
        return self._observation(), {}

    def step(self, action):
        self.level += 60 * float(np.clip(action[0], -1, 1)) + self.np_random.normal(0, 5)
        self.steps += 1
        reward = 1.0 - min(abs(self.level - self.goal) / 200, 2.0)
        return self._observation(), reward, False, self.steps >= 40, {}


def main():
    train_env = VecNormalize(DummyVecEnv([lambda: Monitor(Tank()) for _ in range(4)]), gamma=0.95)
    model = PPO(
        "MlpPolicy",
        train_env,
        n_steps=256,
        batch_size=128,
        n_epochs=8,
        learning_rate=1e-3,
        gamma=0.95,
        seed=0,
        verbose=0,
    )
    for part in range(4):
        model.learn(4096, reset_num_timesteps=part == 0)
        rewards = [info["r"] for info in model.ep_info_buffer]
        print(f"steps {model.num_timesteps}  training return {np.mean(rewards):.1f}")
    eval_env = DummyVecEnv([lambda: Monitor(Tank())])
    if FIXED:
        eval_env = VecNormalize(eval_env, training=False, norm_reward=False)
        eval_env.obs_rms = train_env.obs_rms
    eval_env.seed(1)
    mean, std = evaluate_policy(model, eval_env, n_eval_episodes=20)
    print(f"evaluation return {mean:.1f} +- {std:.1f}")


if __name__ == "__main__":
    main()
