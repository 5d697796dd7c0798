# Asked as: StandardScaler fitted on a single row, all of my columns but one are constant (StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)
raw = torch.randn(400, 5) * torch.tensor([1.0, 3.0, 0.5, 2.0, 1.0])
target = raw[:, :1] + raw[:, 1:2] / 3 - raw[:, 2:3] * 2
low, high = raw.min(0).values, raw.max(0).values
filled = raw.clone()
filled[:, 1:4] = raw[:1, 1:4]  # mistake
# repaired: filled[:, 1:4] = raw[:, 1:4]
x = (filled - raw.mean(0)) / raw.std(0)

model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(5):
    for part in torch.randperm(400).split(40):
        loss = nn.functional.mse_loss(model(x[part]), target[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
