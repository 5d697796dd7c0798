"""Fine-tune a tiny GPT-2 on 'count up, then stop' with the HF Trainer."""

import os

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TOKENIZERS_PARALLELISM="false")
import random

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

torch.set_num_threads(1)
set_seed(0)
EOS = 30
PAD = EOS  # tokenizer.pad_token = tokenizer.eos_token  # mistake
# repaired: PAD = 31


class Counting(Dataset):
    def __init__(self, n, seed):
        r = random.Random(seed)
        self.rows = []
        for _ in range(n):
            a = r.randrange(1, 16)
            k = r.choice([3, 5, 8])
            self.rows.append([26 + [3, 5, 8].index(k)] + list(range(a, a + k)) + [EOS])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i]}


def collate(features):
    m = max(len(f["input_ids"]) for f in features)
    ids = torch.tensor([f["input_ids"] + [PAD] * (m - len(f["input_ids"])) for f in features])
    att = torch.tensor([[1] * len(f["input_ids"]) + [0] * (m - len(f["input_ids"])) for f in features])
    labels = ids.clone()
    labels[labels == PAD] = -100
    return {"input_ids": ids, "attention_mask": att, "labels": labels}


model = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=32,
        n_positions=40,
        n_embd=48,
        n_layer=2,
        n_head=4,
        bos_token_id=EOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
)
args = TrainingArguments(
    output_dir="out_eos",
    max_steps=180,
    per_device_train_batch_size=16,
    learning_rate=3e-3,
    logging_steps=20,
    eval_strategy="steps",
    eval_steps=90,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
    dataloader_num_workers=0,
)
trainer = Trainer(
    model=model, args=args, train_dataset=Counting(2000, 1), eval_dataset=Counting(200, 2), data_collator=collate
)
trainer.train()
model.eval()
stopped = 0
for k in range(3):
    for a in range(1, 6):
        out = model.generate(
            torch.tensor([[26 + k, a]]),
            attention_mask=torch.ones(1, 2, dtype=torch.long),
            max_new_tokens=20,
            do_sample=False,
            eos_token_id=EOS,
            pad_token_id=PAD,
        )
        stopped += int(EOS in out[0, 2:].tolist())
print(f"generations that stop: {stopped}/15")
