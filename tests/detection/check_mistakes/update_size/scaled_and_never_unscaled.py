# Asked as: scaler.scale(loss).backward() and then optimizer.step(), weights explode (PyTorch forums, AMP)
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
concept = torch.randn(8, 3)
for step in range(40):
    x = torch.randn(32, 8)
    y = (x @ concept).argmax(1)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x)
    loss = nn.functional.cross_entropy(logits.float(), y)
    scaler.scale(loss).backward()
    optimizer.step()  # mistake
    # repaired: scaler.step(optimizer)
    # repaired: scaler.update()
    if step % 10 == 0:
        print(step, loss.item())
