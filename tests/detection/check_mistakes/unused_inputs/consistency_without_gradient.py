# Asked as: consistency regularization has no effect, is it the no_grad around both views? (r/MachineLearning)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
rule = torch.randn(8, 3)
for step in range(60):
    x, unlabelled = torch.randn(32, 8), torch.randn(64, 8)
    supervised = F.cross_entropy(model(x), (x @ rule).argmax(1))
    with torch.no_grad():
        clean = model(unlabelled)
        noisy = model(unlabelled + 0.1 * torch.randn_like(unlabelled))  # mistake
    # repaired: noisy = model(unlabelled + 0.1 * torch.randn_like(unlabelled))
    consistency = F.mse_loss(noisy.softmax(1), clean.softmax(1))
    loss = supervised + 10 * consistency
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
