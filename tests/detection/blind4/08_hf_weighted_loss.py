"""Train a small GPT-2 on dates with a Trainer that gives the digits a greater weight than the rest."""

import sys
import tempfile

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, default_data_collator, set_seed

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
set_seed(0)
torch.set_num_threads(1)
SYMBOLS = [*"0123456789", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
SYMBOLS += [".", ":", "<bos>", "<eos>"]
INDEX = {symbol: i for i, symbol in enumerate(SYMBOLS)}


def encode(day, month):
    """14 mar : 1 4 . 0 3 -- the month's name becomes a number of two digits."""
    written = [*f"{day:02d}", SYMBOLS[9 + month], ":", *f"{day:02d}", ".", *f"{month:02d}", "<eos>"]
    return [INDEX["<bos>"]] + [INDEX[symbol] for symbol in written]


class WeightedTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        logits = outputs.logits
        weight = torch.ones(len(SYMBOLS), device=logits.device)
        weight[:10] = 2.0
        criterion = nn.CrossEntropyLoss(weight=weight)
        if FIXED:
            logits, labels = logits[:, :-1], labels[:, 1:]
        loss = criterion(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
        return (loss, outputs) if return_outputs else loss


def main():
    dates = [(day, month) for day in range(1, 29) for month in range(1, 13)]
    order = torch.randperm(len(dates), generator=torch.Generator().manual_seed(0)).tolist()
    rows = [encode(*dates[i]) for i in order]
    rows = [{"input_ids": row, "labels": list(row)} for row in rows]
    train, test = rows[:270] * 6, rows[270:]
    config = GPT2Config(
        vocab_size=len(SYMBOLS),
        n_positions=16,
        n_embd=48,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=INDEX["<bos>"],
        eos_token_id=INDEX["<eos>"],
    )
    model = GPT2LMHeadModel(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=32,
            num_train_epochs=8,
            learning_rate=3e-3,
            weight_decay=0.01,
            warmup_steps=20,
            logging_steps=50,
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        trainer = WeightedTrainer(
            model=model, args=arguments, train_dataset=train, eval_dataset=test, data_collator=default_data_collator
        )
        trainer.train()

    model.eval()
    prompts = torch.tensor([row["input_ids"][:5] for row in test])
    wanted = torch.tensor([row["input_ids"][5:] for row in test])
    with torch.no_grad():
        answers = model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            max_new_tokens=wanted.shape[1],
            min_new_tokens=wanted.shape[1],
            do_sample=False,
            pad_token_id=INDEX["<eos>"],
        )
    # the last symbol is <eos>, which generate() holds back here
    right = (answers[:, 5:-1] == wanted[:, :-1]).all(1).float().mean().item()
    print("sample:", " ".join(SYMBOLS[i] for i in answers[0]))
    print(f"dates right {right:.3f}")


if __name__ == "__main__":
    main()
