"""Trains one rank with a checkpoint every five steps: ``rank_of_a_store.py FOLDER STEPS AT``.

It kills itself at step AT; with a negative one it waits at step -AT until it is killed. It writes the loss and the
weights of each step to ``told-<rank>.jsonl`` itself.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch

folder, steps, at, rank = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), os.environ["RANK"]
checkpoint = folder / f"checkpoint-{rank}.pt"
torch.manual_seed(int(rank))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
first = 0
if checkpoint.exists():
    state = torch.load(checkpoint, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
(folder / f"started-{rank}-{first}").touch()
while len(list(folder.glob(f"started-*-{first}"))) < 2:  # as a collective operation waits for the other rank
    time.sleep(0.02)
for step in range(first, steps):
    if step % 5 == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, checkpoint)
    if step == abs(at):
        time.sleep(0.6)  # everything until here is flushed
        if at < 0:
            (folder / f"waits-{rank}").touch()
            time.sleep(3600)
        os.kill(os.getpid(), signal.SIGKILL)
    inputs = torch.randn(16, 4, generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
    loss.backward()
    with open(folder / f"told-{rank}.jsonl", "a") as told:
        told.write(json.dumps([step, loss.item(), model.weight.tolist()]) + "\n")
    optimizer.step()
