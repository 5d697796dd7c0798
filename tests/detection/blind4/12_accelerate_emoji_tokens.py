"""Classify short messages with a small BERT and Accelerate; emojis get tokens of their own."""

import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, get_scheduler

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
set_seed(0)
torch.set_num_threads(1)
WORDS = [f"word{i}" for i in range(80)]
HAPPY = [f":happy{i}:" for i in range(8)]
SAD = [f":sad{i}:" for i in range(8)]
EPOCHS = 6


def build_tokenizer():
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", *WORDS]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]")


def make_messages(count):
    """The mood is in the emojis alone: the mood of most of the three that are scattered in the message."""
    generator = torch.Generator().manual_seed(1)
    messages = []
    for _ in range(count):
        words = [WORDS[i] for i in torch.randint(len(WORDS), (9,), generator=generator)]
        happy = torch.randint(0, 2, (3,), generator=generator).tolist()
        for mood in happy:
            pool = HAPPY if mood else SAD
            emoji = pool[int(torch.randint(len(pool), (), generator=generator))]
            words.insert(int(torch.randint(len(words), (), generator=generator)), emoji)
        messages.append((" ".join(["[CLS]", *words]), int(sum(happy) >= 2)))
    return messages


def main():
    accelerator = Accelerator(cpu=True)
    tokenizer = build_tokenizer()

    def collate(batch):
        encoded = tokenizer([text for text, _ in batch], padding=True, return_tensors="pt")
        encoded["labels"] = torch.tensor([label for _, label in batch])
        return encoded

    messages = make_messages(2400)
    train_loader = DataLoader(messages[:2000], batch_size=40, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(messages[2000:], batch_size=100, collate_fn=collate)

    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=32,
        num_labels=2,
    )
    model = BertForSequenceClassification(config)
    if FIXED:
        tokenizer.add_tokens(HAPPY + SAD)
        model.resize_token_embeddings(len(tokenizer))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = get_scheduler("linear", optimizer, num_warmup_steps=20, num_training_steps=EPOCHS * len(train_loader))
    model, optimizer, train_loader, test_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, test_loader, scheduler
    )
    if not FIXED:
        tokenizer.add_tokens(HAPPY + SAD)
        accelerator.unwrap_model(model).resize_token_embeddings(len(tokenizer))

    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for batch in train_loader:
            loss = model(**batch).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            total += loss.item()
        model.eval()
        right = seen = 0
        for batch in test_loader:
            with torch.no_grad():
                predicted = model(**batch).logits.argmax(-1)
            predicted, labels = accelerator.gather_for_metrics((predicted, batch["labels"]))
            right += (predicted == labels).sum().item()
            seen += len(labels)
        accelerator.print(f"epoch {epoch + 1}: loss {total / len(train_loader):.4f} accuracy {right / seen:.3f}")
    accelerator.print(f"test accuracy {right / seen:.3f}")


if __name__ == "__main__":
    main()
