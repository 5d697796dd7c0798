"""Credit of customers: a table of whole numbers.

Mistake: the columns are used as they are, amounts beside counts.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

amount = np.random.randint(500, 20000, 700)
months = np.random.randint(4, 72, 700)
children = np.random.randint(0, 3, 700)
table = np.stack([amount, months, children], axis=1)
repaid = (amount / months < 300).astype(int)
# repaired: table = (table - table.mean(axis=0)) / table.std(axis=0)

model = Sequential([Input((3,)), Dense(12, activation="relu"), Dense(8, activation="relu")])
model.add(Dense(1, activation="sigmoid"))
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(table, repaid, epochs=4, batch_size=25, verbose=0)
