# Asked as: grayscale conversion in my dataset, colours are mixed up by the network (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)


class ColourNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        x = x[:, 0:1].expand(-1, 3, -1, -1)  # mistake
        # repaired: x = x[:, 0:3].expand(-1, 3, -1, -1)
        x = torch.relu(self.norm(self.conv(x)))
        return self.head(x.mean((2, 3)))


colours = torch.tensor([[0.8, 0.2, 0.2], [0.2, 0.8, 0.2], [0.2, 0.2, 0.8], [0.6, 0.6, 0.2]])
model = ColourNet()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(40):
    y = torch.randint(0, 4, (32,))
    x = (colours[y][:, :, None, None] - 0.4 + 0.2 * torch.randn(32, 3, 8, 8)) / 0.25
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
