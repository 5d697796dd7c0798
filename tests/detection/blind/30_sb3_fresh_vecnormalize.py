"""Train PPO with VecNormalize, save, load and play (like train.py / play.py)."""

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

torch.set_num_threads(1)


class Thermostat(gym.Env):
    """Keep a tank near its target temperature (raw sensor units)."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.temp = 300 + 40 * self.np_random.standard_normal()
        self.target = 300 + 20 * self.np_random.standard_normal()
        self.t = 0
        return self._obs(), {}

    def _obs(self):
        return np.array([self.temp, self.target], dtype=np.float32)

    def step(self, a):
        self.temp += (int(a) - 1) * 8 + self.np_random.standard_normal()
        self.t += 1
        return self._obs(), -abs(self.temp - self.target) / 40, False, self.t >= 30, {}


venv = VecNormalize(make_vec_env(Thermostat, n_envs=4, seed=0), norm_reward=True)
model = PPO(
    "MlpPolicy",
    venv,
    n_steps=128,
    batch_size=128,
    n_epochs=4,
    learning_rate=2e-3,
    gamma=0.9,
    seed=0,
    verbose=0,
    policy_kwargs=dict(net_arch=[32, 32]),
)
model.learn(8192)
print("training reward (last 100 episodes): %.2f" % np.mean([e["r"] for e in model.ep_info_buffer]))
model.save("ppo_thermo.zip")
venv.save("ppo_thermo_vecnorm.pkl")

env = DummyVecEnv([Thermostat])
env.seed(1)
env = VecNormalize(env, norm_reward=False)  # mistake
# repaired: env = VecNormalize.load("ppo_thermo_vecnorm.pkl", env)
env.training = False
env.norm_reward = False
model = PPO.load("ppo_thermo.zip")
mean, std = evaluate_policy(model, env, n_eval_episodes=20, warn=False)
print(f"play: mean reward {mean:.2f} +- {std:.2f}")
