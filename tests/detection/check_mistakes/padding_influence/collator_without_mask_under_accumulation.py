# Asked as: accuracy depends on the batch size, my own collator pads but returns no mask (Transformers forum)
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
model = BertForSequenceClassification(
    BertConfig(
        vocab_size=40,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=20,
        num_labels=2,
        initializer_range=0.2,
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
PARTS = 2


def collate(sequences):
    ids = pad_sequence(sequences, batch_first=True)
    return {"input_ids": ids}  # mistake
    # repaired: return {"input_ids": ids, "attention_mask": (ids != 0).long()}


model.train()
for step in range(40):
    sequences = [torch.randint(4, 40, (int(length),)) for length in torch.randint(4, 17, (16,))]
    labels = torch.tensor([int(ids[0] < 22) for ids in sequences])
    loss = model(**collate(sequences), labels=labels).loss / PARTS
    loss.backward()
    if step % PARTS == 1:
        optimizer.step()
        optimizer.zero_grad()
    if step % 10 == 0:
        print(step, loss.item())
