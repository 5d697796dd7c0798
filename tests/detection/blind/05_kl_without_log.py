"""Knowledge distillation: a small student learns from a frozen teacher."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(3)
T = 2.0
C = 8

x = torch.randn(4000, 16)
centers = torch.randn(C, 16)
y = (x @ centers.t() + torch.sin(2 * x[:, :C])).argmax(1)
train = DataLoader(TensorDataset(x[:3200], y[:3200]), batch_size=64, shuffle=True)
xv, yv = x[3200:], y[3200:]


def mlp(h):
    return nn.Sequential(nn.Linear(16, h), nn.ReLU(), nn.Linear(h, C))


def accuracy(m):
    with torch.no_grad():
        return (m(xv).argmax(1) == yv).float().mean().item()


teacher = mlp(128)
opt = torch.optim.Adam(teacher.parameters(), lr=3e-3)
for epoch in range(4):
    for xb, yb in train:
        opt.zero_grad()
        F.cross_entropy(teacher(xb), yb).backward()
        opt.step()
teacher.eval()
print(f"teacher acc {accuracy(teacher):.3f}")

student = mlp(32)
opt = torch.optim.Adam(student.parameters(), lr=3e-3)
for epoch in range(8):
    running = 0.0
    for xb, _ in train:
        with torch.no_grad():
            t_logits = teacher(xb)
        s_logits = student(xb)
        prediction = F.softmax(s_logits / T, dim=1)  # mistake
        # repaired: prediction = F.log_softmax(s_logits / T, dim=1)
        kd = F.kl_div(prediction, F.softmax(t_logits / T, dim=1), reduction="batchmean") * T * T
        opt.zero_grad()
        kd.backward()
        opt.step()
        running += kd.item()
    print(f"epoch {epoch}: kd loss {running / len(train):.4f}, student acc {accuracy(student):.3f}")
