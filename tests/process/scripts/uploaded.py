"""A training of 400 steps that prints its weights at the end.

It waits at step 100 until the file ``go`` exists, and at step 300 until the file ``back`` does.
"""

import hashlib
import time
from pathlib import Path

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for step in range(400):
    while (step == 100 and not Path("go").exists()) or (step == 300 and not Path("back").exists()):
        time.sleep(0.02)
    loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 8)), torch.randint(2, (16,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.01)
weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
print(hashlib.sha256(weights.numpy().tobytes()).hexdigest(), loss.item().hex())
