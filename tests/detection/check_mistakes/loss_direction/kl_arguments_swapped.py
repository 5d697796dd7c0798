# Asked as: nn.KLDivLoss gives negative values in knowledge distillation (PyTorch forums: input is log-probabilities)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 5)).eval()
for p in teacher.parameters():
    p.data.mul_(2)
    p.requires_grad_(False)
student = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 5))
optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
for step in range(60):
    x = torch.randn(48, 10)
    with torch.no_grad():
        wanted = F.softmax(teacher(x), dim=1)
    given = F.softmax(student(x), dim=1)
    loss = F.kl_div(wanted, given, reduction="batchmean")  # mistake
    # repaired: loss = F.kl_div(given.log(), wanted, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item(), (given.argmax(1) == wanted.argmax(1)).float().mean().item())
