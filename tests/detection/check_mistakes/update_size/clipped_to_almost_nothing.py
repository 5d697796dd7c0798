# Asked as: clip_grad_norm_ with max_norm 1e-6 stopped the NaN, but now it learns nothing (r/MachineLearning)
import torch
from torch import nn

torch.manual_seed(0)


class CharRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(15, 16)
        self.rnn = nn.RNN(16, 32, batch_first=True)
        self.head = nn.Linear(32, 15)

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])


model = CharRNN()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for step in range(60):
    text = (torch.randint(0, 15, (16, 1)) + 4 * torch.arange(13)) % 15
    logits = model(text[:, :-1])
    loss = nn.functional.cross_entropy(logits.reshape(-1, 15), text[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-6)  # mistake
    # repaired: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
