"""A regression whose loss stops to fall after a few batches.

Mistake: the learning rate is halved at every update instead of every epoch.
"""

import keras
import numpy as np
from keras.layers import Dense, Input

x = np.random.normal(size=(960, 6))
y = np.sin(x[:, 0]) + x[:, 1]

steps = 1  # mistake
# repaired: steps = 300
schedule = keras.optimizers.schedules.ExponentialDecay(0.01, decay_steps=steps, decay_rate=0.5)
model = keras.Sequential([Input((6,)), Dense(32, activation="relu"), Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(schedule), loss="mse")
model.fit(x, y, epochs=6, batch_size=32, verbose=0)
