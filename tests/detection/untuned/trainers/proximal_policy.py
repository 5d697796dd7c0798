"""PPO of Stable-Baselines3 in a corridor, whose learning rate falls."""

from shared.corridor import STEPS, train
from stable_baselines3 import PPO

train(PPO, 4 * STEPS, n_steps=128, batch_size=64, n_epochs=6, learning_rate=lambda left: 1e-3 * left, ent_coef=0.01)
