# Asked as: requires_grad = False in a loop over named_parameters froze more than I wanted (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(16, 64), nn.LayerNorm(64), nn.ReLU())
        self.fc = nn.Linear(64, 8)

    def forward(self, x):
        return self.fc(self.backbone(x))


model = Net()
for name, parameter in model.named_parameters():
    is_frozen = "weight" in name  # mistake
    # repaired: is_frozen = "backbone.0" in name
    parameter.requires_grad = not is_frozen
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
centres = torch.randn(8, 16)
for step in range(60):
    y = torch.randint(0, 8, (32,))
    x = centres[y] + 0.5 * torch.randn(32, 16)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
