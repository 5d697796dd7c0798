# Asked as: BatchNorm momentum 0.99 in Keras is 0.01 in PyTorch? validation accuracy jumps (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs, momentum=0.0),  # mistake
        # repaired: nn.BatchNorm2d(outputs, momentum=0.1),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


model = nn.Sequential(block(1, 8), block(8, 16), nn.Flatten(), nn.Linear(64, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
shapes = torch.randn(3, 1, 8, 8)


def batch():
    y = torch.randint(0, 3, (32,))
    return 3 + 2 * (shapes[y] + torch.randn(32, 1, 8, 8)), y


for epoch in range(3):
    model.train()
    for _ in range(15):
        x, y = batch()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    x, y = batch()
    print(epoch, loss.item(), (model(x).argmax(1) == y).float().mean().item())
