# Asked as: persistent=False in register_buffer, the anchors are random again after loading (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 32), nn.ReLU())
        self.head = nn.Linear(32, 2)
        anchors = torch.rand(2)
        self.register_buffer("anchors", anchors, persistent=False)  # mistake
        # repaired: self.register_buffer("anchors", anchors)

    def forward(self, x):
        return self.head(self.encoder(x)) + self.anchors


model = Detector()
optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
for step in range(50):
    x = torch.randn(32, 12)
    boxes = torch.stack([x[:, :6].mean(1), x[:, 6:].mean(1)], dim=1) * 2 + 1
    loss = nn.functional.smooth_l1_loss(model(x), boxes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
torch.save(model.state_dict(), "detector.pt")
