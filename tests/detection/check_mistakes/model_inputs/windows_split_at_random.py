# Asked as: a random split of sliding windows of a time series (stackexchange; the validation is far too good)
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.manual_seed(0)
load = torch.randn(700).cumsum(0) * 0.1
windows = torch.stack([load[at : at + 24] for at in range(670)])
later = torch.stack([load[at + 29] - load[at + 23] for at in range(670)])
data = TensorDataset(windows, later)
order = torch.randperm(670).tolist()  # mistake
# repaired: order = range(670)
training = DataLoader(Subset(data, order[:520]), batch_size=40, shuffle=True)
validation = DataLoader(Subset(data, order[550:]), batch_size=120)
model = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(4):
    for given, wanted in training:
        loss = nn.functional.mse_loss(model(given), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        errors = [nn.functional.mse_loss(model(given), wanted).item() for given, wanted in validation]
    print(epoch, sum(errors) / len(errors))
