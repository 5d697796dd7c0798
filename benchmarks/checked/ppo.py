"""PPO of Stable-Baselines3 on CartPole, with the settings of its zoo as far as one environment allows."""

import gymnasium as gym
from stable_baselines3 import PPO

agent = PPO(
    "MlpPolicy",
    gym.make("CartPole-v1"),
    n_steps=256,
    batch_size=256,
    n_epochs=20,
    gamma=0.98,
    gae_lambda=0.8,
    learning_rate=1e-3,
    seed=0,
    device="cpu",
    verbose=1,
)
agent.learn(4096)
