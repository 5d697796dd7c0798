"""Cross-validation with a fresh model in each fold.

Mistake: the optimizer of the first model is kept, so that no later model is trained.
"""

import torch
from torch import nn

X = torch.randn(300, 6)
y = (X[:, :2].prod(dim=1) > 0).long()


def make_model():
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))


model = make_model()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss()
for fold in range(3):
    test = torch.zeros(300, dtype=torch.bool)
    test[fold * 100 : (fold + 1) * 100] = True
    model = make_model()
    # repaired: optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(8):
        for rows in (~test).nonzero().flatten().split(40):
            optimizer.zero_grad()
            loss = criterion(model(X[rows]), y[rows])
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        accuracy = (model(X[test]).argmax(1) == y[test]).float().mean()
    print(f"fold {fold}: accuracy {accuracy:.2f}")
