"""The next value of a scaled series, with a stack of recurrent layers and gradient clipping."""

import numpy as np
from keras.layers import GRU, Dense, Input
from keras.models import Sequential
from keras.optimizers import Adam

time = np.arange(700)
series = np.sin(0.2 * time) + 0.3 * np.sin(0.07 * time) + 0.05 * np.random.normal(size=700)
series = (series - series.min()) / (series.max() - series.min())
x = np.stack([series[at : at + 12] for at in range(660)])[..., None]
y = series[12:672]

model = Sequential()
model.add(Input((12, 1)))
model.add(GRU(12, return_sequences=True))
model.add(GRU(8))
model.add(Dense(1))
model.compile(loss="mean_squared_error", optimizer=Adam(0.005, clipnorm=1.0))
model.fit(x, y, epochs=5, batch_size=30, verbose=0)
