"""Sequence tagger (GRU + CRF-like head) in Lightning with a learning rate for each part."""

import logging

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.set_num_threads(1)
L.seed_everything(1, verbose=False)
V, TAGS, T = 40, 5, 12


class Tagger(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Embedding(V, 24))
        self.gru = nn.GRU(24, 24, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(48, TAGS)
        self.transitions = nn.Parameter(torch.zeros(TAGS, TAGS))

    def forward(self, x):
        h, _ = self.gru(self.encoder(x))
        e = self.fc(h)
        return e + F.pad((e[:, :-1].softmax(-1) @ self.transitions), (0, 0, 1, 0))

    def training_step(self, b, _):
        return F.cross_entropy(self(b[0]).flatten(0, 1), b[1].flatten())

    def validation_step(self, b, _):
        out = self(b[0])
        self.log("val_loss", F.cross_entropy(out.flatten(0, 1), b[1].flatten()))
        self.log("val_acc", (out.argmax(-1) == b[1]).float().mean())

    def on_validation_epoch_end(self):
        m = self.trainer.callback_metrics
        print(f"epoch {self.current_epoch} val_loss {float(m['val_loss']):.4f} val_acc {float(m['val_acc']):.4f}")

    def configure_optimizers(self):
        parameters = []
        params = {"lr": 1e-3, "weight_decay": 1e-2, "params": []}
        for name, param in self.named_parameters():
            if "encoder" in name or "gru" in name:
                params["params"].append(param)
        parameters.append(params)
        params = {"lr": 5e-3, "weight_decay": 1e-2, "params": []}
        for name, param in self.named_parameters():
            if name.startswith("transitions") or name.startswith("fc"):
                params["params"].append(param)
        # repaired: parameters.append(params)
        return torch.optim.AdamW(parameters)


def corpus(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(0, V, (n, T), generator=g)
    prev = F.pad(x[:, :-1], (1, 0))
    return TensorDataset(x, (x + (prev > 20).long()) % TAGS)


trainer = L.Trainer(
    max_epochs=5,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    num_sanity_val_steps=0,
)
trainer.fit(
    Tagger(), DataLoader(corpus(2000, 1), batch_size=32, shuffle=True), DataLoader(corpus(400, 2), batch_size=200)
)
