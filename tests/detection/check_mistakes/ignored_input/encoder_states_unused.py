# Asked as: my image captioning model writes the same caption for every picture (r/MachineLearning, StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)
pictures = torch.randn(5, 1, 6, 6)


class Captioner(nn.Module):
    def __init__(self, words=12):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 32))
        self.embed = nn.Embedding(words, 16)
        self.decoder = nn.GRU(16, 32, batch_first=True)
        self.out = nn.Linear(32, words)

    def forward(self, image, caption):
        start = self.cnn(image).unsqueeze(0)
        start = torch.tanh(start) * 0  # mistake
        # repaired: start = torch.tanh(start)
        hidden, _ = self.decoder(self.embed(caption), start)
        return self.out(hidden)


captions = torch.cat([torch.ones(5, 1, dtype=torch.long), torch.randint(2, 12, (5, 4))], dim=1)
model = Captioner()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(60):
    which = torch.randint(0, 5, (24,))
    image = pictures[which] + 0.3 * torch.randn(24, 1, 6, 6)
    logits = model(image, captions[which, :-1])
    loss = nn.functional.cross_entropy(logits.reshape(-1, 12), captions[which, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
