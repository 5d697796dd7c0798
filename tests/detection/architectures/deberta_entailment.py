"""DeBERTa of a small random configuration: pairs of sentences with segment ids and disentangled attention."""

import torch
from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

torch.manual_seed(0)
model = DebertaV2ForSequenceClassification(
    DebertaV2Config(
        vocab_size=40,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        initializer_range=0.1,
        max_position_embeddings=32,
        type_vocab_size=2,
        relative_attention=True,
        position_biased_input=False,
        pos_att_type=["p2c", "c2p"],
        pooler_hidden_size=32,
        pad_token_id=0,
        num_labels=2,
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.train()
for step in range(25):
    first = torch.randint(5, 40, (16, 5))
    labels = torch.randint(0, 2, (16,))
    second = torch.where(labels[:, None] == 1, first, torch.randint(5, 40, (16, 5)))
    lengths = torch.randint(9, 12, (16, 1))
    ids = torch.cat([torch.full((16, 1), 1), first, second], dim=1)
    attention_mask = (torch.arange(11) < lengths).long()
    segments = torch.cat([torch.zeros(16, 6), torch.ones(16, 5)], dim=1).long()
    output = model(
        input_ids=ids * attention_mask,
        attention_mask=attention_mask,
        token_type_ids=segments * attention_mask,
        labels=labels,
    )
    optimizer.zero_grad()
    output.loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, output.loss.item())
