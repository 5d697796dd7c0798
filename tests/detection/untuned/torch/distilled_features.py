"""A teacher is trained, then a smaller student on its softened outputs, its features and the labels."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.classifier = nn.Linear(width, 6)

    def forward(self, x):
        h = self.features(x)
        return self.classifier(h), h


centres = torch.randn(6, 16)


def batch():
    y = torch.randint(6, (48,))
    return centres[y] + torch.randn(48, 16), y


teacher, student, project = Net(96), Net(24), nn.Linear(24, 96)
opt = torch.optim.Adam(teacher.parameters(), lr=2e-3)
for _ in range(steps // 2):
    x, y = batch()
    opt.zero_grad()
    F.cross_entropy(teacher(x)[0], y).backward()
    opt.step()
teacher.eval()
opt = torch.optim.Adam([*student.parameters(), *project.parameters()], lr=2e-3)
T, history = 4.0, []
for step in range(steps):
    x, y = batch()
    with torch.no_grad():
        t_logits, t_features = teacher(x)
    s_logits, s_features = student(x)
    soft = F.kl_div(F.log_softmax(s_logits / T, 1), F.softmax(t_logits / T, 1), reduction="batchmean") * T * T
    hint = F.mse_loss(project(s_features), t_features)
    loss = 0.5 * soft + 0.3 * F.cross_entropy(s_logits, y) + 0.2 * hint
    opt.zero_grad()
    loss.backward()
    opt.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
