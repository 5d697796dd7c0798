# Asked as: df.sample(frac=1) for the features only, the index is not aligned with y (StackOverflow)
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(4)
torch.manual_seed(0)
features = rng.normal(size=(600, 7)).astype(np.float32)
target = (features @ rng.normal(size=7) > 0).astype(np.float32)
rng.shuffle(features)  # mistake
# repaired: order = rng.permutation(600)
# repaired: features, target = features[order], target[order]
x, y = torch.from_numpy(features), torch.from_numpy(target)

model = nn.Sequential(nn.Linear(7, 24), nn.ReLU(), nn.Linear(24, 1))
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
for epoch in range(4):
    for i in range(0, 600, 50):
        logits = model(x[i : i + 50]).squeeze(1)
        loss = criterion(logits, y[i : i + 50])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), ((logits > 0) == (y[i : i + 50] > 0.5)).float().mean().item())
