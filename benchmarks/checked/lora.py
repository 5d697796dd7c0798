"""Instruction tuning of a frozen GPT-2 of six layers with LoRA adapters of peft; the prompt has no labels."""

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
VOCABULARY, END = 5000, 0


def sample():
    prompt = torch.randint(3, VOCABULARY, (int(torch.randint(8, 25, (1,))),))
    answer = torch.cat([prompt.flip(0)[:8], torch.tensor([END])])
    ids = torch.cat([prompt, torch.tensor([1]), answer])
    return ids, torch.cat([torch.full((len(prompt) + 1,), -100), answer])


def collate(batch):
    length = max(len(ids) for ids, _ in batch)

    def pad(values, filling):
        return torch.stack([torch.cat([value, torch.full((length - len(value),), filling)]) for value in values])

    ids, labels = zip(*batch, strict=True)
    lengths = torch.tensor([len(row) for row in ids])
    mask = (torch.arange(length) < lengths[:, None]).long()
    return {"input_ids": pad(ids, END), "attention_mask": mask, "labels": pad(labels, -100)}


base = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=VOCABULARY, n_positions=64, n_embd=256, n_layer=6, n_head=8, bos_token_id=END, eos_token_id=END
    )
)
settings = LoraConfig(
    task_type=TaskType.CAUSAL_LM,
    r=8,
    lora_alpha=16,
    lora_dropout=0.05,
    target_modules=["c_attn", "c_proj"],
    fan_in_fan_out=True,
)
model = get_peft_model(base, settings)
model.print_trainable_parameters()
optimizer = torch.optim.AdamW([parameter for parameter in model.parameters() if parameter.requires_grad], lr=1e-3)
loader = DataLoader([sample() for _ in range(1600)], batch_size=8, shuffle=True, collate_fn=collate)
model.train()
for step, batch in enumerate(loader):
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
