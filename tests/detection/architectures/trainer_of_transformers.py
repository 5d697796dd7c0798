"""The Trainer of Transformers with accumulation, a padding collator and evaluation after each epoch."""

import tempfile

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments, set_seed

set_seed(0)
samples = []
for _ in range(160):
    ids = torch.randint(4, 40, (int(torch.randint(4, 14, (1,))),))
    samples.append({"input_ids": ids, "labels": int(ids[0] < 22)})


def collate(batch):
    ids = pad_sequence([sample["input_ids"] for sample in batch], batch_first=True)
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "labels": torch.tensor([sample["labels"] for sample in batch]),
    }


model = DistilBertForSequenceClassification(
    DistilBertConfig(
        vocab_size=40, dim=32, hidden_dim=64, n_layers=1, n_heads=4, max_position_embeddings=24, num_labels=2
    )
)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        num_train_epochs=2,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        learning_rate=1e-3,
        warmup_steps=2,
        eval_strategy="epoch",
        save_strategy="no",
        logging_steps=5,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(model, arguments, collate, samples[:128], samples[128:])
    trainer.train()
