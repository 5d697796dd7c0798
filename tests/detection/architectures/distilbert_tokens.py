"""DistilBERT of a small random configuration: named entities, with -100 at padding and at continued words."""

import torch
from transformers import DistilBertConfig, DistilBertForTokenClassification

torch.manual_seed(0)
model = DistilBertForTokenClassification(
    DistilBertConfig(
        vocab_size=50, dim=32, hidden_dim=64, n_layers=2, n_heads=4, max_position_embeddings=24, num_labels=3
    )
)


def batch(size=16, longest=14):
    lengths = torch.randint(5, longest + 1, (size, 1))
    attention_mask = (torch.arange(longest) < lengths).long()
    input_ids = torch.randint(3, 50, (size, longest))
    labels = torch.where(input_ids < 10, 1, torch.where(input_ids < 17, 2, 0))
    is_continued = torch.rand(size, longest) < 0.2
    is_continued[:, 1] = False
    labels = labels.masked_fill(is_continued | (attention_mask == 0), -100)
    labels[:, 0] = -100
    return {"input_ids": input_ids * attention_mask, "attention_mask": attention_mask, "labels": labels}


optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
model.train()
for step in range(30):
    output = model(**batch())
    optimizer.zero_grad()
    output.loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, output.loss.item())
