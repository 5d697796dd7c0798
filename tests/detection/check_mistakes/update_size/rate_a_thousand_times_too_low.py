# Asked as: loss decreases by 0.0001 per epoch, is my model broken? (PyTorch forums)
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(512, 10)
y = x[:, :1] - 2 * x[:, 1:2] + x[:, 2:3] * x[:, 3:4]
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=2e-5, momentum=0.9)  # mistake
# repaired: optimizer = torch.optim.SGD(model.parameters(), lr=2e-2, momentum=0.9)
for epoch in range(6):
    for inputs, targets in loader:
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
