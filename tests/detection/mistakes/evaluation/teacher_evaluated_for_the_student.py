"""Semi-supervised training with a teacher that is an average of the student's weights.

Mistake: the average is taken of the teacher itself, so that the teacher that is evaluated stays what it was.
"""

import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
centres = torch.randn(3, 8)


def sample(count):
    y = torch.randint(3, (count,))
    return centres[y] + torch.randn(count, 8), y


student = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 3))
teacher = copy.deepcopy(student)
optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)
x_held_out, y_held_out = sample(200)
for step in range(200):
    x, y = sample(48)
    with torch.no_grad():
        target = teacher(x).softmax(1)
    logits = student(x + 0.1 * torch.randn_like(x))
    loss = F.cross_entropy(logits[:12], y[:12]) + 0.2 * F.mse_loss(logits.softmax(1), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        # repaired: for mine, theirs in zip(teacher.parameters(), student.parameters()):
        for mine, theirs in zip(teacher.parameters(), teacher.parameters()):  # mistake
            mine.lerp_(theirs, 0.05)
        if step % 25 == 24:
            val_loss = F.cross_entropy(teacher(x_held_out), y_held_out).item()
            print(f"step={step} loss={loss.item():.4f} val_loss={val_loss:.4f}")
