# Asked as: nll_loss becomes more and more negative, what is wrong? (PyTorch forums)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
centres = torch.randn(6, 10) * 2
net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 6))
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(60):
    y = torch.randint(0, 6, (32,))
    x = centres[y] + torch.randn(32, 10)
    probabilities = F.softmax(net(x), dim=1)
    picked = probabilities.gather(1, y[:, None])
    loss = picked.clamp(min=1e-7).log().mean()  # mistake
    # repaired: loss = -picked.clamp(min=1e-7).log().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 15 == 0:
        print(step, loss.item(), (probabilities.argmax(1) == y).float().mean().item())
