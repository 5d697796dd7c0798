# Asked as: do I have to pass attention_mask to BERT? padded batches give other predictions (Transformers forum)
import torch
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(
    vocab_size=60,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    initializer_range=0.1,
    max_position_embeddings=32,
    num_labels=2,
)
model = BertForSequenceClassification(config)


def batch(size=16):
    lengths = torch.randint(5, 20, (size, 1))
    ids = torch.randint(5, 60, (size, 20))
    ids[:, 0] = 1
    mask = (torch.arange(20) < lengths).long()
    labels = ((ids < 15).long() * mask).sum(1).gt(2).long()
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": labels}


optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
model.train()
for step in range(30):
    inputs = batch()
    output = model(input_ids=inputs["input_ids"], labels=inputs["labels"])  # mistake
    # repaired: output = model(**inputs)
    output.loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 0:
        print(step, output.loss.item())
