"""DQN of Stable-Baselines3 in a corridor: a target network, and a memory of transitions."""

from shared.corridor import STEPS, train
from stable_baselines3 import DQN

train(
    DQN,
    12 * STEPS,
    learning_starts=200,
    train_freq=4,
    target_update_interval=200,
    learning_rate=1e-3,
    exploration_fraction=0.4,
)
