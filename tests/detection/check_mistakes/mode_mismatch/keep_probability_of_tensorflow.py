# Asked as: porting a TensorFlow 1 model, keep_prob=0.9 became Dropout(0.9) (StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(10, 64),
    nn.ReLU(),
    nn.Dropout(0.95),  # mistake
    # repaired: nn.Dropout(0.05),
    nn.Linear(64, 64),
    nn.ReLU(),
    nn.Dropout(0.95),  # mistake
    # repaired: nn.Dropout(0.05),
    nn.Linear(64, 1),
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(60):
    model.train()
    x = torch.randn(64, 10)
    y = x[:, :1] + x[:, 1:2] ** 2
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        model.eval()
        with torch.no_grad():
            print(step, loss.item(), nn.functional.mse_loss(model(x), y).item())
