"""Train, checkpoint in the middle (spot instance), resume in the same script."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
ap = argparse.ArgumentParser()
ap.add_argument("--steps", type=int, default=400)
ap.add_argument("--save-at", type=int, default=200)
ap.add_argument("--ckpt", default="blind_resume.pt")
args = ap.parse_args()


def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.999))
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 50) * max(0.02, 1 - s / args.steps))
    return model, opt, sched


def batch(step):
    g = torch.Generator().manual_seed(step)
    x = torch.randn(64, 16, generator=g)
    y = torch.sin(3 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    return x, y


def save(step, model, opt, sched):
    torch.save(
        {"step": step, "model": model.state_dict(), "optimizer": opt.state_dict(), "scheduler": sched.state_dict()},
        args.ckpt,
    )


def run(first, last, model, opt, sched):
    for step in range(first, last):
        x, y = batch(step)
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} lr {sched.get_last_lr()[0]:.5f} loss {loss.item():.4f}")


model, opt, sched = build()
run(0, args.save_at, model, opt, sched)
save(args.save_at, model, opt, sched)
del model, opt, sched

model, opt, sched = build()
ck = torch.load(args.ckpt)
model.load_state_dict(ck["model"])
# repaired: opt.load_state_dict(ck["optimizer"])
# repaired: sched.load_state_dict(ck["scheduler"])
print("resumed at step", ck["step"])
run(ck["step"], args.steps, model, opt, sched)
xv, yv = batch(10**6)
print("final val mse", F.mse_loss(model(xv), yv).item())
