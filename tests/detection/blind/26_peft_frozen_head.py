"""LoRA fine-tuning of a BERT-like encoder for sequence classification."""

import os

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, set_seed

torch.set_num_threads(1)
set_seed(0)
V, L, C = 60, 12, 6
word_topic = torch.randint(0, C, (V,))


def texts(n):
    y = torch.randint(0, C, (n,))
    x = torch.randint(0, V, (n, L))
    for i in range(n):
        own = torch.nonzero(word_topic == y[i]).squeeze(1)
        x[i, :4] = own[torch.randint(0, len(own), (4,))]
        x[i] = x[i][torch.randperm(L)]
    return x, y


model = BertForSequenceClassification(
    BertConfig(
        vocab_size=V,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=32,
        num_labels=C,
        hidden_dropout_prob=0.0,
    )
)
cfg = LoraConfig(r=4, lora_alpha=8, target_modules=["query", "value"], lora_dropout=0.0, bias="none")  # mistake
# repaired: cfg = LoraConfig(
# repaired: r=4, lora_alpha=8, target_modules=["query", "value"], lora_dropout=0.0, bias="none", task_type=TaskType.SEQ_CLS
# repaired: )
model = get_peft_model(model, cfg)
model.print_trainable_parameters()
opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
train = DataLoader(TensorDataset(*texts(1920)), batch_size=48, shuffle=True)
xv, yv = texts(400)
for epoch in range(4):
    model.train()
    tot = 0
    for x, y in train:
        loss = model(input_ids=x, labels=y).loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item()
    model.eval()
    with torch.no_grad():
        acc = (model(input_ids=xv).logits.argmax(-1) == yv).float().mean()
    print(f"epoch {epoch} loss {tot / len(train):.4f} val acc {acc:.3f}")
