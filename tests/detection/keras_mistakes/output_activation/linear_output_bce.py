"""Customers who leave.

Mistake: no activation behind the last layer; binary_crossentropy takes probabilities.
"""

import numpy as np
from keras.layers import Dense, Dropout, Input
from keras.models import Sequential

X_train = np.random.normal(size=(1000, 11))
y_train = (X_train[:, 2] - X_train[:, 5] + 0.3 * np.random.normal(size=1000) > 0).astype("int32")

classifier = Sequential()
classifier.add(Input((11,)))
classifier.add(Dense(units=6, kernel_initializer="uniform", activation="relu"))
classifier.add(Dropout(0.1))
classifier.add(Dense(units=6, kernel_initializer="uniform", activation="relu"))
classifier.add(Dense(units=1, kernel_initializer="uniform"))  # mistake
# repaired: classifier.add(Dense(units=1, kernel_initializer="uniform", activation="sigmoid"))
classifier.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
classifier.fit(X_train, y_train, batch_size=10, epochs=2, verbose=0)
