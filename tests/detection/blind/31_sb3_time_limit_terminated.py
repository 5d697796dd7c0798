"""A2C from Stable-Baselines3 on a custom continuing task with a step limit."""

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

torch.set_num_threads(1)


class Balance(gym.Env):
    """Balance a drifting level between -1 and 1: +1 a step; leaving the band ends the task."""

    observation_space = gym.spaces.Box(-3, 3, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, max_steps=40):
        self.max_steps = max_steps

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.v, self.t = self.np_random.uniform(-0.3, 0.3), 0.0, 0
        return np.array([self.x, self.v], np.float32), {}

    def step(self, a):
        self.v = 0.9 * self.v + (0.08 if a == 1 else -0.08) + 0.02 * self.np_random.standard_normal()
        self.x += self.v
        self.t += 1
        fell = abs(self.x) > 1
        timeout = self.t >= self.max_steps
        obs = np.array([self.x, self.v], np.float32)
        return obs, 1.0, bool(fell or timeout), False, {}  # mistake
        # repaired: return obs, 1.0, bool(fell), bool(timeout and not fell), {}


class PrintStats(BaseCallback):
    def _on_step(self):
        return True

    def _on_rollout_end(self):
        if self.n_calls % 1000 == 0:
            n = self.logger.name_to_value
            print(
                f"steps {self.num_timesteps} ep_len {np.mean([e['l'] for e in self.model.ep_info_buffer] or [0]):.1f} value_loss {n.get('train/value_loss', float('nan')):.2f} explained_var {n.get('train/explained_variance', float('nan')):.3f}"
            )


model = A2C(
    "MlpPolicy",
    Monitor(Balance()),
    n_steps=20,
    learning_rate=3e-3,
    gamma=0.98,
    gae_lambda=0.95,
    seed=0,
    policy_kwargs=dict(net_arch=[32, 32]),
)
model.learn(8000, callback=PrintStats())
print("eval", evaluate_policy(model, Monitor(Balance()), n_eval_episodes=10))
obs = torch.zeros(1, 2)
print(
    "value of the balanced state %.1f (discounted sum of an endless task: %.1f)"
    % (model.policy.predict_values(obs).item(), 1 / (1 - 0.98))
)
