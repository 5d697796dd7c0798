# Asked as: mean teacher, the consistency loss stays at zero from the first iteration (GitHub)
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)

student = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
ema_teacher = student  # mistake
# repaired: ema_teacher = copy.deepcopy(student)
optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
rule = torch.randn(8, 3)
for step in range(60):
    x = torch.randn(48, 8)
    y = (x @ rule).argmax(1)
    with torch.no_grad():
        wanted = ema_teacher(x).softmax(1)
    predicted = student(x + 0.1 * torch.randn_like(x))
    loss = F.cross_entropy(predicted, y) + F.mse_loss(predicted.softmax(1), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for ours, theirs in zip(student.parameters(), ema_teacher.parameters(), strict=True):
            theirs.lerp_(copy.copy(ours), 0.01)
    if step % 10 == 0:
        print(step, loss.item())
