# Asked as: validation accuracy is 100 % in the first epoch, is that leakage? (Kaggle, r/learnmachinelearning)
import torch
from torch import nn

torch.manual_seed(0)
data = torch.randn(512, 7)
concept = torch.randn(6)
data[:, 6] = (data[:, :6] @ concept + 0.5 * torch.randn(512) > 0).float()
features, labels = data, data[:, 6]  # mistake
# repaired: features, labels = data[:, :6], data[:, 6]
model = nn.Sequential(nn.Linear(features.shape[1], 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(3):
    for part in torch.randperm(512).split(32):
        logits = model(features[part]).squeeze(1)
        loss = criterion(logits, labels[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
