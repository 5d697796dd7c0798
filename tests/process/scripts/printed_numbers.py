"""A training that prints its results; the argument is a file for the digest of its weights."""

import hashlib
import os
import sys

import torch
from torch import nn
from tqdm import tqdm

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    model.train()
    bar = tqdm(range(4), desc=f"epoch {epoch}", mininterval=0)
    for _ in bar:
        x = torch.randn(16, 4)
        loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bar.set_postfix({"loss": loss.item()}, recall=0.5)
    model.eval()
    with torch.no_grad():
        x = torch.randn(200, 4)
        accuracy = (model(x).argmax(1) == (x[:, 0] > 0)).float().mean()
    tqdm.write(f"val acc {accuracy:.4f}")
    print(f"Accuracy of the network on the 10000 test images: {100 * accuracy:.1f} %", file=sys.stderr)
os.system("echo val precision: 0.1")  # another process
with open(sys.argv[1], "w") as file:
    weights = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    file.write(f"{hashlib.sha256(weights).hexdigest()} {accuracy:.4f}")
