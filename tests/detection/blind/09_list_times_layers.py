import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(0)


class MedusaLikeHeads(nn.Module):
    """Shared GRU trunk, one head for each of the next 4 symbols."""

    def __init__(self, vocab=12, d=32, n_heads=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        heads = [nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, vocab))] * n_heads  # mistake
        # repaired: heads = [nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, vocab)) for _ in range(n_heads)]
        self.heads = nn.ModuleList(heads)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return [head(h) for head in self.heads]


def make_seq(n, T=20, V=12):
    start = torch.randint(0, V, (n, 1))
    stride = torch.randint(1, 4, (n, 1))
    return (start + stride * torch.arange(T)) % V


model = MedusaLikeHeads()
print("parameters:", sum(p.numel() for p in model.parameters()))
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
val = make_seq(256)


def losses(seq):
    outs = model(seq[:, :-4])
    T = seq.size(1) - 4
    return [F.cross_entropy(o.flatten(0, 1), seq[:, k + 1 : k + 1 + T].flatten()) for k, o in enumerate(outs)], outs


for step in range(1, 401):
    ls, _ = losses(make_seq(64))
    loss = sum(ls) / len(ls)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        with torch.no_grad():
            vl, outs = losses(val)
            accs = [(o.argmax(-1)[:, 3:] == val[:, k + 4 : k + 17]).float().mean().item() for k, o in enumerate(outs)]
        print(
            f"step {step} train {loss.item():.3f} val {sum(vl).item() / 4:.3f} acc/head "
            + " ".join(f"{a:.2f}" for a in accs)
        )
