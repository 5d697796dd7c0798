# Asked as: my ResNet trains no better with more blocks (StackOverflow: out computed but x returned)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(x)  # mistake
        # repaired: return F.relu(out + x)


model = nn.Sequential(
    nn.Conv2d(1, 12, 3, padding=1),
    ResidualBlock(12),
    ResidualBlock(12),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(12, 2),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(30):
    y = torch.randint(0, 2, (32,))
    stripes = torch.arange(10) % 2 * 1.0
    x = torch.where(y[:, None, None] == 1, stripes[None, :, None], stripes[None, None, :]) + 0.5 * torch.randn(
        32, 10, 10
    )
    loss = F.cross_entropy(model(x.unsqueeze(1)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
