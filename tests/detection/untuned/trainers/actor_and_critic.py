"""A2C of Stable-Baselines3 in a corridor."""

from shared.corridor import STEPS, train
from stable_baselines3 import A2C

train(A2C, 20 * STEPS, n_steps=10, learning_rate=1e-3)
