"""Train PPO on a balancing task in two sessions: save after the first, load and go on in the second."""

import os
import sys
import tempfile

import gymnasium as gym
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.set_num_threads(1)
SETTINGS = {
    "n_steps": 256,
    "batch_size": 128,
    "n_epochs": 8,
    "learning_rate": 3e-4,
    "gamma": 0.98,
    "gae_lambda": 0.9,
    "seed": 0,
    "device": "cpu",
}


class ShortPole(gym.Wrapper):
    """CartPole with a pole of another length, as the second session's machine has it."""

    def __init__(self, env, length):
        super().__init__(env)
        self.env.unwrapped.length = length
        self.env.unwrapped.polemass_length = self.env.unwrapped.masspole * length


def make_env(length):
    return lambda: ShortPole(gym.make("CartPole-v1"), length)


def score(model, length):
    env = make_vec_env(make_env(length), n_envs=1, seed=100)
    mean, std = evaluate_policy(model, env, n_eval_episodes=10, deterministic=True)
    env.close()
    return mean, std


def first_session(path):
    env = make_vec_env(make_env(0.5), n_envs=4, seed=0)
    model = PPO("MlpPolicy", env, **SETTINGS)
    for _ in range(4):
        model.learn(total_timesteps=9 * 1024, reset_num_timesteps=False)
        mean, std = score(model, 0.5)
        print(f"session 1, {model.num_timesteps} steps: reward {mean:.1f} +- {std:.1f}")
    model.save(path)
    env.close()


def second_session(path):
    env = make_vec_env(make_env(0.4), n_envs=4, seed=1)
    if FIXED:
        model = PPO.load(path, env=env, device="cpu")
    else:
        model = PPO("MlpPolicy", env, **SETTINGS)
        model.load(path)
    # only a little training is needed to get used to the new pole
    model.learn(total_timesteps=1024, reset_num_timesteps=False)
    mean, std = score(model, 0.4)
    print(f"session 2, {model.num_timesteps} steps: reward {mean:.1f} +- {std:.1f}")
    env.close()
    return mean


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ppo_pole")
        first_session(path)
        mean = second_session(path)
    print(f"final mean reward {mean:.1f}")


if __name__ == "__main__":
    main()
