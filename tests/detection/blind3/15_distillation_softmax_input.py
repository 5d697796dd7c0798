"""Distill a wide classifier into a narrow one."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
TEMPERATURE = 3.0
CENTRES = torch.randn(30, 20, generator=torch.Generator().manual_seed(3))


def points(n, generator):
    """Ten classes, each of three clusters."""
    cluster = torch.randint(0, 30, (n,), generator=generator)
    return CENTRES[cluster] + 0.9 * torch.randn(n, 20, generator=generator), cluster % 10


def net(width):
    return nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def distillation_loss(student, teacher):
    soft_teacher = F.softmax(teacher / TEMPERATURE, dim=1)
    if FIXED:
        soft_student = F.log_softmax(student / TEMPERATURE, dim=1)
    else:
        soft_student = F.softmax(student / TEMPERATURE, dim=1)
    return F.kl_div(soft_student, soft_teacher, reduction="batchmean") * TEMPERATURE**2


def main():
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(TensorDataset(*points(2000, generator)), batch_size=64, shuffle=True)
    test_x, test_y = points(1000, generator)
    teacher, student = net(128), net(24)
    optimizer = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    for _ in range(10):
        teacher.train()
        for x, y in loader:
            loss = F.cross_entropy(teacher(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"teacher accuracy {accuracy(teacher, test_x, test_y):.3f}")
    optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
    for epoch in range(12):
        student.train()
        total = 0.0
        for x, y in loader:
            with torch.no_grad():
                targets = teacher(x)
            logits = student(x)
            loss = 0.9 * distillation_loss(logits, targets) + 0.1 * F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}  loss {total / len(loader):.3f}  student {accuracy(student, test_x, test_y):.3f}")


if __name__ == "__main__":
    main()
