"""SAC of Stable-Baselines3 in a corridor with continuous actions: several optimizers in one step."""

from shared.corridor import STEPS, train
from stable_baselines3 import SAC

train(
    SAC,
    150 + 3 * STEPS,
    is_continuous=True,
    learning_starts=150,
    learning_rate=3e-3,
    batch_size=64,
    policy_kwargs={"net_arch": [32, 32]},
)
