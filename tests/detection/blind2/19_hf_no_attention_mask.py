"""Reviews as ids of words, padded to a fixed length, for a small BERT and the Trainer."""

import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
set_seed(0)

PAD, CLS, SEP, GOOD, BAD, WORDS, MAX_LENGTH = 0, 1, 2, range(10, 20), range(20, 30), 100, 48


def reviews(n, rng):
    """More good words than bad ones; most reviews are short."""
    rows = []
    while len(rows) < n:
        length = int(rng.integers(4, 12)) if rng.random() < 0.8 else int(rng.integers(12, 44))
        words = rng.integers(30, WORDS, length)
        places = rng.random(length) < 0.4
        words[places] = rng.integers(10, 30, places.sum())
        balance = sum(w in GOOD for w in words) - sum(w in BAD for w in words)
        if balance:
            rows.append(([CLS, *words.tolist(), SEP], int(balance > 0)))
    return rows


class Reviews(Dataset):
    def __init__(self, rows, pad_to=MAX_LENGTH):
        self.rows, self.pad_to = rows, pad_to

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        ids, label = self.rows[index]
        item = {"input_ids": torch.tensor(ids + [PAD] * (self.pad_to - len(ids))), "labels": torch.tensor(label)}
        if FIXED:
            item["attention_mask"] = (item["input_ids"] != PAD).long()
        return item


def accuracy(output):
    return {"accuracy": float((output.predictions.argmax(-1) == output.label_ids).mean())}


def main():
    rng = np.random.default_rng(0)
    train, val = reviews(1600, rng), reviews(300, rng)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=WORDS,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=64,
            pad_token_id=PAD,
            num_labels=2,
        )
    )
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        num_train_epochs=4,
        per_device_train_batch_size=32,
        learning_rate=2e-3,
        eval_strategy="epoch",
        logging_steps=25,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(
        model, arguments, train_dataset=Reviews(train), eval_dataset=Reviews(val), compute_metrics=accuracy
    )
    trainer.train()
    print("val", {k: round(v, 3) for k, v in trainer.evaluate().items()})
    model.eval()
    right = 0
    with torch.no_grad():
        for ids, label in val:  # in service: one review, not padded
            right += int(model(input_ids=torch.tensor([ids])).logits.argmax() == label)
    print(f"final val acc without padding {right / len(val):.3f}")


if __name__ == "__main__":
    main()
