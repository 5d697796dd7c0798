"""Ratings predicted from an embedding of each user: "the training loss goes to zero, the test loss does not move".

Mistake: the test set has other users, whose embeddings are never trained.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

USERS, FILMS = 200, 60
tastes, traits = torch.randn(USERS, 3), torch.randn(FILMS, 3)
user, film = torch.randint(USERS, (6000,)), torch.randint(FILMS, (6000,))
rating = (tastes[user] * traits[film]).sum(1) / 3**0.5 + 0.2 * torch.randn(6000)
is_test = user >= 150  # mistake
# repaired: is_test = torch.rand(6000) < 0.25


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.films = nn.Embedding(USERS, 8), nn.Embedding(FILMS, 8)

    def forward(self, user, film):
        return (self.users(user) * self.films(film)).sum(1)


def loader(chosen, shuffle):
    return DataLoader(TensorDataset(user[chosen], film[chosen], rating[chosen]), batch_size=100, shuffle=shuffle)


train, test = loader(~is_test, True), loader(is_test, False)
model = Recommender()
nn.init.normal_(model.users.weight, std=0.1)
nn.init.normal_(model.films.weight, std=0.1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
criterion = nn.MSELoss()
for epoch in range(15):
    model.train()
    for u, f, r in train:
        optimizer.zero_grad()
        loss = criterion(model(u, f), r)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        losses = [criterion(model(u, f), r).item() for u, f, r in test]
    print(epoch, loss.item(), sum(losses) / len(losses))
