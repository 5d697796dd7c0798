"""Who buys, from age and income.

Mistake: the features are in years and in dollars.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

age = np.random.uniform(18, 70, 800)
income = np.random.lognormal(10.5, 0.5, 800)
X = np.stack([age, income], axis=1)
y = (income / 40000 + age / 45 > 2).astype(int)
# repaired: X = (X - X.mean(axis=0)) / X.std(axis=0)

model = Sequential()
model.add(Input((2,)))
model.add(Dense(16, activation="relu"))
model.add(Dense(1, activation="sigmoid"))
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(X, y, epochs=4, batch_size=32, verbose=0)
