# Asked as: my recommender gives everybody the same ranking (StackOverflow, user ids cast wrongly)
import torch
from torch import nn

torch.manual_seed(0)
users, items = torch.randn(40, 4), torch.randn(25, 4)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Embedding(40, 16), nn.Embedding(25, 16)
        self.score = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, user, item):
        return self.score(torch.cat([self.user(user), self.item(item)], dim=1)).squeeze(1)


model = Recommender()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(60):
    user, item = torch.randint(0, 40, (64,)), torch.randint(0, 25, (64,))
    liked = ((users[user] * items[item]).sum(1) > 0).float()
    ids = user / 40  # mistake
    # repaired: ids = user
    logits = model(ids.long(), item)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, liked)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
