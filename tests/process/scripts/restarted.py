"""Trains two workers of torchrun with checkpoints every five steps; rank 1 dies once at a step: ``restarted.py AT``."""

import os
import sys
import time

import torch
import torch.distributed as dist

AT, STEPS, CHECKPOINT = int(sys.argv[1]), 30, "checkpoint.pt"
restarts, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
store = dist.FileStore(
    os.path.abspath(f"store-{restarts}"), 2
)  # torchrun's own store has addresses of the dead, at times
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
first = 0
if os.path.exists(CHECKPOINT):
    state = torch.load(CHECKPOINT, weights_only=True)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
dist.barrier()
for step in range(first, STEPS):
    if step % 5 == 0:
        if rank == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, CHECKPOINT)
        dist.barrier()
    if rank == 1 and step == AT and restarts == 0:
        time.sleep(0.6)  # everything until here is flushed
        sys.exit(7)
    generator = torch.Generator().manual_seed(2 * step + rank)
    inputs = torch.randn(16, 4, generator=generator)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
