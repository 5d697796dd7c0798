# Asked as: my LSTM classifier is no better than chance, shapes look right (PyTorch forums, batch_first)
import torch
from torch import nn

torch.manual_seed(0)
sequences = torch.randn(640, 12, 4)
labels = (sequences[:, :, 0].sum(1) > 0).long()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 32)  # mistake
        # repaired: self.lstm = nn.LSTM(4, 32, batch_first=True)
        self.fc = nn.Linear(32, 2)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.fc(out[:, -1])


model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(3):
    for i in range(0, 640, 32):
        x, y = sequences[i : i + 32], labels[i : i + 32]
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
