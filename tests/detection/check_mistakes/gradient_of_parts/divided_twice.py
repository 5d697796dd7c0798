# Asked as: accelerator.accumulate and loss / gradient_accumulation_steps, both? (Accelerate forum)
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
x = torch.randn(640, 8)
data = TensorDataset(x, x[:, :1] * 2 - x[:, 1:2].abs())
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=16, shuffle=True))
for epoch in range(3):
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss / 4)  # mistake
            # repaired: accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    accelerator.print(epoch, loss.item())
