# Asked as: model.parameters() is missing the layers in my list (StackOverflow, use nn.ModuleList)
import torch
from torch import nn

torch.manual_seed(0)


class Deep(nn.Module):
    def __init__(self, depth=3, width=32):
        super().__init__()
        self.inputs = nn.Linear(8, width)
        layers = [nn.Linear(width, width) for _ in range(depth)]
        self.layers = layers  # mistake
        # repaired: self.layers = nn.ModuleList(layers)
        self.outputs = nn.Linear(width, 1)

    def forward(self, x):
        x = torch.relu(self.inputs(x))
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.outputs(x)


model = Deep()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(50):
    x = torch.randn(32, 8)
    y = x[:, :1] * x[:, 1:2]
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
torch.save(model.state_dict(), "model.pt")
