"""A training for the dashboard: its weights become NaN once the file ``bad`` exists; it continues until stopped."""

import time
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.randn(4096, 16), torch.randint(0, 4, (4096,))), batch_size=8
)
is_bad = False
end = time.monotonic() + 900
while time.monotonic() < end:
    for inputs, labels in batches:
        if not is_bad and Path("bad").exists():
            is_bad = True
            with torch.no_grad():
                model[2].weight.fill_(float("nan"))
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.02)
        if time.monotonic() > end:
            break
