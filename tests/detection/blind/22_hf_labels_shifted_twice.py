"""Causal LM pre-training on a toy grammar, HF Trainer, labels built in the dataset."""

import os

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

torch.set_num_threads(1)
set_seed(1)
V, L = 24, 33
g = torch.Generator().manual_seed(0)
nxt = torch.stack([torch.randperm(V, generator=g)[:2] for _ in range(V)])


class Corpus(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        x = torch.zeros(n, L, dtype=torch.long)
        x[:, 0] = torch.randint(0, V, (n,), generator=g)
        for t in range(1, L):
            pick = (torch.rand(n, generator=g) < 0.1).long()
            x[:, t] = nxt[x[:, t - 1], pick]
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        row = self.x[i]
        return {"input_ids": row[:-1], "labels": row[1:]}  # mistake
        # repaired: return {"input_ids": row[:-1], "labels": row[:-1].clone()}


model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=V,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=64,
    )
)
args = TrainingArguments(
    output_dir="out_shift",
    max_steps=150,
    per_device_train_batch_size=16,
    learning_rate=3e-3,
    logging_steps=15,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
    lr_scheduler_type="cosine",
)
Trainer(model=model, args=args, train_dataset=Corpus(3000, 1)).train()
model.eval()
test = Corpus(100, 9).x
with torch.no_grad():
    pred = model(input_ids=test[:, :-1]).logits.argmax(-1)
print("next-token accuracy on new text: %.3f" % (pred == test[:, 1:]).float().mean())
