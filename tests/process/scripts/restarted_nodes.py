"""Trains two workers of torchrun on two nodes; rank 1 dies once at a step: ``restarted_nodes.py FOLDER AT``.

Each rank writes its losses to ``losses-<rank>.jsonl`` itself.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

FOLDER, AT, STEPS = Path(sys.argv[1]), int(sys.argv[2]), 30
rank, checkpoint = int(os.environ["RANK"]), FOLDER / "checkpoint.pt"
starts = FOLDER / f"starts-{rank}"
attempt = len(starts.read_text()) if starts.exists() else 0
starts.write_text("x" * (attempt + 1))
store = dist.FileStore(str(FOLDER / f"store-{attempt}"), 2)  # torchrun's count of restarts may differ between nodes
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
first = 0
if checkpoint.exists():
    state = torch.load(checkpoint, weights_only=True)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
dist.barrier()
with open(FOLDER / f"losses-{rank}.jsonl", "a") as losses:
    for step in range(first, STEPS):
        if step % 5 == 0:
            if rank == 0:
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                torch.save(state, checkpoint)
            dist.barrier()
        if rank == 1 and step == AT and attempt == 0:
            time.sleep(0.6)  # everything until here is flushed
            sys.exit(7)
        inputs = torch.randn(16, 4, generator=torch.Generator().manual_seed(2 * step + rank))
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        losses.write(json.dumps([step, loss.item()]) + "\n")
        losses.flush()
dist.destroy_process_group()
