# Asked as: fine-tuning a pretrained encoder, the new classifier stays random (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
head = nn.Linear(32, 5)
centres = torch.randn(5, 20)

optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)  # mistake
# repaired: optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-3)
loss_fn = nn.CrossEntropyLoss()


def step_of(x, y):
    logits = head(encoder(x))
    loss = loss_fn(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item(), (logits.argmax(-1) == y).float().mean().item()


for epoch in range(4):
    for _ in range(12):
        y = torch.randint(0, 5, (32,))
        loss, accuracy = step_of(centres[y] + torch.randn(32, 20), y)
    print(f"epoch {epoch}: loss {loss:.3f}, accuracy {accuracy:.2f}")
