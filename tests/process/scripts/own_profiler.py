"""A training whose script uses PyTorch's profiler itself: before the first step, and within one."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
torch.manual_seed(0)
inputs = torch.randn(32, 8)
model = torch.nn.Linear(8, 2)


def profiled():
    with torch.profiler.profile() as profiler:
        torch.randn(4).sum()
    assert "aten::sum" in {event.key for event in profiler.key_averages()}


profiled()
with torch.autograd.profiler.profile():
    torch.randn(4).sum()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), (inputs[:, 0] > 0).long()).backward()
    if step == 5:
        profiled()
    optimizer.step()
profiled()
print("trained")
