"""Two classes as two one-hot columns, as with to_categorical and binary_crossentropy in Keras.

Mistake: binary cross entropy over two softmax columns, which counts each label twice.
"""

import torch
import torch.nn.functional as F
from torch import nn

x_train = torch.randn(600, 5)
classes = (x_train[:, 0] * 1.5 - x_train[:, 2] > 0).long()
y_train = F.one_hot(classes, 2).float()

model = nn.Sequential(nn.Linear(5, 30), nn.ReLU(), nn.Linear(30, 2), nn.Softmax(dim=1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(8):
    for i in range(0, 600, 50):
        p = model(x_train[i : i + 50])
        loss = F.binary_cross_entropy(p, y_train[i : i + 50])  # mistake
        # repaired: loss = F.nll_loss(torch.log(p), classes[i : i + 50])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    accuracy = (p.argmax(1) == classes[i : i + 50]).float().mean()
    print(f"epoch {epoch} loss {loss:.3f} accuracy {accuracy:.2f}")
