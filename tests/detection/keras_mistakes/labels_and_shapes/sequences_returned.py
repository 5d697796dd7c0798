"""The next value of a series.

Mistake: return_sequences=True on the last LSTM, so that one label is compared with an output for each time.
"""

import numpy as np
from keras.layers import LSTM, Dense, Input
from keras.models import Sequential

start = 6.3 * np.random.rand(480, 1)
series = np.sin(start + 0.5 * np.arange(11))
x, y = series[:, :10, None], series[:, 10:]

model = Sequential()
model.add(Input((10, 1)))
model.add(LSTM(12, return_sequences=True))  # mistake
# repaired: model.add(LSTM(12))
model.add(Dense(1))
model.compile(loss="mse", optimizer="adam")
model.fit(x, y, epochs=5, batch_size=24, verbose=0)
