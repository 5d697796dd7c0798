"""Distillation with hard labels + soft targets (alpha-weighted), tiny CNN student."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
ap = argparse.ArgumentParser()
ap.add_argument("--alpha", type=float, default=0.9)
ap.add_argument("--temp", type=float, default=3.0)
ap.add_argument("--steps", type=int, default=400)
args = ap.parse_args()
torch.manual_seed(0)

K = 6
proto = torch.randn(K, 1, 8, 8)


def get_batch(n, label_noise=0.0):
    y = torch.randint(0, K, (n,))
    x = proto[y] + 1.6 * torch.randn(n, 1, 8, 8)
    noisy = torch.where(torch.rand(n) < label_noise, torch.randint(0, K, (n,)), y)
    return x, noisy


def net(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(width * 16, K)
    )


teacher = net(32)
opt = torch.optim.Adam(teacher.parameters(), lr=2e-3)
for _ in range(250):
    xb, yb = get_batch(64)
    loss = F.cross_entropy(teacher(xb), yb)
    opt.zero_grad()
    loss.backward()
    opt.step()
teacher.eval().requires_grad_(False)

xv, yv = get_batch(1000)
print("teacher val acc", (teacher(xv).argmax(1) == yv).float().mean().item())
student = net(8)
opt = torch.optim.Adam(student.parameters(), lr=2e-3)
for step in range(1, args.steps + 1):
    xb, yb = get_batch(64, label_noise=0.3)
    output = student(xb)
    large_logits = teacher(xb)
    soft_targets = F.softmax(large_logits / args.temp, dim=-1)
    soft_prob = F.log_softmax(large_logits / args.temp, dim=-1)  # mistake
    # repaired: soft_prob = F.log_softmax(output / args.temp, dim=-1)
    soft_loss = F.kl_div(soft_prob, soft_targets, reduction="batchmean") * args.temp**2
    label_loss = F.cross_entropy(output, yb)
    loss = args.alpha * soft_loss + (1 - args.alpha) * label_loss
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        with torch.no_grad():
            acc = (student(xv).argmax(1) == yv).float().mean().item()
        print(f"step {step:4d} soft {soft_loss.item():.4f} label {label_loss.item():.4f} val_acc {acc:.3f}")
