"""Qwen2 of a small random configuration: prompts are not trained on, answers and their end are."""

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

torch.manual_seed(0)
PAD, END = 0, 2
model = Qwen2ForCausalLM(
    Qwen2Config(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        tie_word_embeddings=True,
        pad_token_id=PAD,
        eos_token_id=END,
    )
)


def conversations(size=12, longest=16):
    ids = torch.full((size, longest), PAD)
    labels = torch.full((size, longest), -100)
    for row in range(size):
        prompt = torch.randint(3, 40, (int(torch.randint(3, 8, (1,))),))
        answer = torch.cat([prompt[:1].repeat(int(torch.randint(2, 5, (1,)))), torch.tensor([END])])
        n, m = len(prompt), len(prompt) + len(answer)
        ids[row, :n], ids[row, n:m], labels[row, n:m] = prompt, answer, answer
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": labels}


optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
model.train()
for step in range(25):
    loss = model(**conversations()).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, loss.item())
