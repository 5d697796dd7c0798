# Asked as: why can't I initialize the weights of a neural network with zero? (StackOverflow, loss stays at ln C)
import torch
from torch import nn

torch.manual_seed(0)


def init_weights(module):
    if isinstance(module, (nn.Linear, nn.Conv2d)):
        nn.init.zeros_(module.weight)  # mistake
        # repaired: nn.init.kaiming_normal_(module.weight)
        nn.init.zeros_(module.bias)


model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(128, 32),
    nn.ReLU(),
    nn.Linear(32, 4),
)
model.apply(init_weights)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
templates = torch.randn(4, 1, 8, 8)
for step in range(50):
    y = torch.randint(0, 4, (32,))
    x = templates[y] + 0.5 * torch.randn(32, 1, 8, 8)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
