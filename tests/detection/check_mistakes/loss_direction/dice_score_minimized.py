# Asked as: Dice loss goes to zero, but the predicted masks are empty (r/MachineLearning, segmentation)
import torch
from torch import nn

torch.manual_seed(0)


def dice(logits, mask, smooth=1.0):
    p = torch.sigmoid(logits).flatten(1)
    m = mask.flatten(1)
    return ((2 * (p * m).sum(1) + smooth) / (p.sum(1) + m.sum(1) + smooth)).mean()


class SmallUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU())
        self.middle = nn.Sequential(
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(), nn.ConvTranspose2d(16, 8, 2, 2)
        )
        self.out = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, x):
        d = self.down(x)
        return self.out(torch.cat([d, self.middle(d)], dim=1))


net = SmallUNet()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(40):
    mask = torch.zeros(16, 1, 12, 12)
    for one in mask:
        r, c = torch.randint(0, 7, (2,)).tolist()
        one[0, r : r + 5, c : c + 5] = 1
    image = 2 * mask - 1 + 0.5 * torch.randn_like(mask)
    loss = dice(net(image), mask)  # mistake
    # repaired: loss = 1 - dice(net(image), mask)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
