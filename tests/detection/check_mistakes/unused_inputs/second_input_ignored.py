# Asked as: my two-branch network (image and metadata) is as good without the metadata (StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)


class TwoBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 16)
        )
        self.tabular = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 16))
        self.head = nn.Linear(32, 1)

    def forward(self, image, metadata):
        a, b = self.image(image), self.tabular(metadata)
        return self.head(torch.cat([a, a], dim=1))  # mistake
        # repaired: return self.head(torch.cat([a, b], dim=1))


model = TwoBranches()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(40):
    image, metadata = torch.randn(32, 1, 8, 8), torch.randn(32, 5)
    price = image[:, 0, :4, :4].mean((1, 2))[:, None] + metadata[:, :1] - 0.5 * metadata[:, 1:2]
    loss = nn.functional.mse_loss(model(image, metadata), price)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
