"""A BERT that was trained on topics gets a new head for departments, with Accelerate."""

import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, get_scheduler

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
set_seed(0)
torch.set_num_threads(1)
CLS, COMMON, TOPICS, WORDS_PER_TOPIC = 1, 60, 9, 12
LENGTH = 14
# which department answers messages about a topic
DEPARTMENTS = torch.tensor([0, 1, 2, 2, 0, 1, 1, 2, 0])


def make_messages(count, seed):
    """Common words, and among them three words of the message's topic and one of another."""
    generator = torch.Generator().manual_seed(seed)
    topics = torch.randint(TOPICS, (count,), generator=generator)
    tokens = torch.randint(2, 2 + COMMON, (count, LENGTH), generator=generator)
    tokens[:, 0] = CLS
    for row, topic in zip(tokens, topics, strict=True):
        places = torch.randperm(LENGTH - 1, generator=generator)[:4] + 1
        words = torch.randint(WORDS_PER_TOPIC, (4,), generator=generator)
        about = torch.tensor([topic] * 3 + [int(torch.randint(TOPICS, (), generator=generator))])
        row[places] = 2 + COMMON + about * WORDS_PER_TOPIC + words
    return tokens, topics


def pretrain(model):
    tokens, topics = make_messages(4000, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    for epoch in range(5):
        total = 0.0
        for batch in torch.randperm(len(tokens)).split(40):
            loss = model(input_ids=tokens[batch], labels=topics[batch]).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        print(f"topics, epoch {epoch + 1}: loss {total / len(tokens):.4f}")


def replace_head(model, labels):
    model.classifier = nn.Linear(model.config.hidden_size, labels)
    model.config.num_labels = model.num_labels = labels


def main():
    config = BertConfig(
        vocab_size=2 + COMMON + TOPICS * WORDS_PER_TOPIC,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=32,
        num_labels=TOPICS,
    )
    model = BertForSequenceClassification(config)
    pretrain(model)

    tokens, topics = make_messages(1600, seed=1)
    labels = DEPARTMENTS[topics]
    train_loader = DataLoader(TensorDataset(tokens[:800], labels[:800]), batch_size=40, shuffle=True)
    test_loader = DataLoader(TensorDataset(tokens[800:], labels[800:]), batch_size=100)

    # the encoder is good enough, only the head is trained
    for parameter in model.bert.parameters():
        parameter.requires_grad = False
    if FIXED:
        replace_head(model, 3)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    scheduler = get_scheduler("linear", optimizer, num_warmup_steps=10, num_training_steps=10 * len(train_loader))
    accelerator = Accelerator(cpu=True)
    model, optimizer, train_loader, test_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, test_loader, scheduler
    )
    if not FIXED:
        replace_head(accelerator.unwrap_model(model), 3)

    for epoch in range(10):
        model.train()
        total = 0.0
        for ids, targets in train_loader:
            loss = model(input_ids=ids, labels=targets).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            total += loss.item()
        accelerator.print(f"departments, epoch {epoch + 1}: loss {total / len(train_loader):.4f}")

    model.eval()
    right = seen = 0
    for ids, targets in test_loader:
        with torch.no_grad():
            predicted = model(input_ids=ids).logits.argmax(-1)
        predicted, targets = accelerator.gather_for_metrics((predicted, targets))
        right += (predicted == targets).sum().item()
        seen += len(targets)
    accelerator.print(f"test accuracy {right / seen:.3f}")


if __name__ == "__main__":
    main()
