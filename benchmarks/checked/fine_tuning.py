"""Fine-tuning of a DistilBERT of four layers by the Trainer of Transformers: padded texts of two classes."""

import tempfile

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments, set_seed

set_seed(0)
VOCABULARY = 30522
positive = torch.randint(1000, VOCABULARY, (200,))


def sample():
    label = int(torch.randint(2, (1,)))
    ids = torch.randint(1000, VOCABULARY, (int(torch.randint(12, 62, (1,))),))
    if label:
        ids[torch.randint(len(ids), (4,))] = positive[torch.randint(200, (4,))]
    return {"input_ids": torch.cat([torch.tensor([101]), ids, torch.tensor([102])]), "labels": label}


def collate(batch):
    ids = pad_sequence([item["input_ids"] for item in batch], batch_first=True)
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "labels": torch.tensor([item["labels"] for item in batch]),
    }


samples = [sample() for _ in range(640)]
model = DistilBertForSequenceClassification(DistilBertConfig(dim=256, hidden_dim=1024, n_layers=4, n_heads=4))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        num_train_epochs=2,
        per_device_train_batch_size=16,
        learning_rate=2e-4,
        eval_strategy="epoch",
        save_strategy="no",
        logging_steps=10,
        report_to="none",
        use_cpu=True,
    )
    trainer = Trainer(model, arguments, collate, samples[:512], samples[512:])
    trainer.train()
