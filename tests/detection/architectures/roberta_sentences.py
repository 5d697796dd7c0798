"""RoBERTa of a small random configuration: classification of padded sentences, with warm-up and decay."""

import torch
from transformers import RobertaConfig, RobertaForSequenceClassification, get_linear_schedule_with_warmup

torch.manual_seed(0)
PAD = 1
model = RobertaForSequenceClassification(
    RobertaConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        initializer_range=0.1,
        max_position_embeddings=30,
        type_vocab_size=1,
        num_labels=3,
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
schedule = get_linear_schedule_with_warmup(optimizer, 4, 40)
model.train()
for step in range(40):
    lengths = torch.randint(4, 17, (16, 1))
    attention_mask = (torch.arange(16) < lengths).long()
    labels = torch.randint(0, 3, (16,))
    input_ids = torch.randint(10, 50, (16, 16))
    input_ids[:, 0], input_ids[:, 2] = 0, 5 + labels
    input_ids = input_ids.masked_fill(attention_mask == 0, PAD)
    loss = model(input_ids=input_ids, attention_mask=attention_mask, labels=labels).loss
    loss.backward()
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    if step % 10 == 0:
        print(step, loss.item())
