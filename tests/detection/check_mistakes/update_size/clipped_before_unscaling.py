# Asked as: gradient clipping with GradScaler, do I need unscale_? (PyTorch AMP examples, forum threads)
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 64), nn.GELU(), nn.Linear(64, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
centres = torch.randn(6, 12)
for step in range(50):
    y = torch.randint(0, 6, (48,))
    x = centres[y] + 0.7 * torch.randn(48, 12)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x).float(), y)
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # mistake
    # repaired: scaler.unscale_(optimizer)
    # repaired: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    if step % 10 == 0:
        print(step, loss.item())
