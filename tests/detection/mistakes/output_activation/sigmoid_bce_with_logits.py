"""Churn prediction with one output.

Mistake: sigmoid before BCEWithLogitsLoss, which applies sigmoid itself.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ChurnModel(nn.Module):
    def __init__(self, num_features):
        super().__init__()
        self.layer_1 = nn.Linear(num_features, 64)
        self.layer_2 = nn.Linear(64, 64)
        self.layer_out = nn.Linear(64, 1)
        self.relu = nn.ReLU()
        self.sigmoid = nn.Sigmoid()
        self.dropout = nn.Dropout(p=0.1)
        self.batchnorm1 = nn.BatchNorm1d(64)

    def forward(self, inputs):
        x = self.relu(self.layer_1(inputs))
        x = self.batchnorm1(x)
        x = self.relu(self.layer_2(x))
        x = self.dropout(x)
        x = self.layer_out(x)
        x = self.sigmoid(x)  # mistake
        return x


X = torch.randn(640, 10)
y = ((X[:, 0] - X[:, 3] + 0.3 * torch.randn(640)) > 0).float()
train_loader = DataLoader(TensorDataset(X, y), batch_size=64, shuffle=True)
model = ChurnModel(10)
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

model.train()
for e in range(1, 9):
    epoch_loss = 0
    for X_batch, y_batch in train_loader:
        optimizer.zero_grad()
        y_pred = model(X_batch)
        loss = criterion(y_pred, y_batch.unsqueeze(1))
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item()
    print(f"Epoch {e:03}: | Loss: {epoch_loss / len(train_loader):.5f}")
