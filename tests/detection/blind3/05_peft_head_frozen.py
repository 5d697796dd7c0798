"""Adapt a small BERT to a new classification with LoRA."""

import sys

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)


def sentences(n, classes, generator):
    """Every class prefers its own words among noise."""
    y = torch.randint(0, classes, (n,), generator=generator)
    noise = torch.randint(1, 60, (n, 16), generator=generator)
    topical = 1 + (y[:, None] * 5 + torch.randint(0, 5, (n, 16), generator=generator)) % 59
    take = torch.rand(n, 16, generator=generator) < 0.3
    return torch.where(take, topical, noise), y


def fit(model, loader, epochs, lr):
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=lr)
    schedule = get_linear_schedule_with_warmup(optimizer, 10, epochs * len(loader))
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for tokens, labels in loader:
            output = model(input_ids=tokens, labels=labels)
            optimizer.zero_grad()
            output.loss.backward()
            optimizer.step()
            schedule.step()
            total += output.loss.item()
        print(f"epoch {epoch}  loss {total / len(loader):.3f}")


def main():
    generator = torch.Generator().manual_seed(0)
    config = BertConfig(
        vocab_size=60,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=16,
        num_labels=3,
    )
    pretrained = BertForSequenceClassification(config)
    print("pretraining")
    fit(pretrained, DataLoader(TensorDataset(*sentences(1600, 3, generator)), 32, shuffle=True), 3, 1e-3)

    config.num_labels = 8
    model = BertForSequenceClassification(config)
    model.bert.load_state_dict(pretrained.bert.state_dict())
    lora = LoraConfig(
        r=4,
        lora_alpha=8,
        lora_dropout=0.05,
        target_modules=["query", "value"],
        task_type=TaskType.SEQ_CLS if FIXED else None,
    )
    model = get_peft_model(model, lora)
    model.print_trainable_parameters()
    fit(model, DataLoader(TensorDataset(*sentences(1600, 8, generator)), 32, shuffle=True), 6, 3e-3)
    model.eval()
    x, y = sentences(1000, 8, generator)
    with torch.no_grad():
        accuracy = (model(input_ids=x).logits.argmax(-1) == y).float().mean().item()
    print(f"test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
