# Asked as: do I have to shift the labels myself, or does the model do it? (Transformers forum)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class CausalLM(nn.Module):
    def __init__(self, vocabulary=26, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, 48, num_layers=2, batch_first=True)
        self.lm_head = nn.Linear(48, vocabulary)

    def forward(self, input_ids, labels=None):
        logits = self.lm_head(self.rnn(self.embed(input_ids))[0])
        if labels is None:
            return logits
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())  # mistake
        # repaired: loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return loss, logits


def sentences(size=16, length=14):
    words = torch.randint(0, 26, (size, 1))
    steps = torch.randint(1, 6, (size, 1))
    return (words + steps * torch.arange(length)) % 26


model = CausalLM()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, 1.0, total_iters=5)
for step in range(50):
    ids = sentences()
    loss, _ = model(ids, labels=ids)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    if step % 10 == 0:
        print({"step": step, "loss": loss.item()})
