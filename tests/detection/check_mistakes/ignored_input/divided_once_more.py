# Asked as: ToTensor already divides by 255 and I divide again, the network predicts one class (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)
raw = torch.randint(0, 200, (512, 1, 8, 8), dtype=torch.uint8)
labels = torch.randint(0, 4, (512,))
for image, label in zip(raw, labels):
    r, c = 4 * int(label // 2), 4 * int(label % 2)
    image[0, r : r + 4, c : c + 4] += 40


def to_tensor(x):
    return x.float() / 255


model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for epoch in range(4):
    for i in range(0, 512, 32):
        x = to_tensor(raw[i : i + 32])
        x = x / 255 / 255  # mistake
        # repaired: x = (x - 0.3) / 0.25
        loss = nn.functional.cross_entropy(model(x), labels[i : i + 32])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
