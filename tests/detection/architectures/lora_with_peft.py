"""A frozen GPT-2 of a small random configuration with LoRA adapters: their second factor starts at zero."""

import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import GPT2Config, GPT2ForSequenceClassification

torch.manual_seed(0)
base = GPT2ForSequenceClassification(
    GPT2Config(
        vocab_size=32, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2, pad_token_id=0
    )
)
settings = LoraConfig(
    task_type=TaskType.SEQ_CLS, r=4, lora_alpha=8, lora_dropout=0.05, target_modules=["c_attn"], fan_in_fan_out=True
)
model = get_peft_model(base, settings)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
model.train()
for step in range(30):
    lengths = torch.randint(5, 13, (16, 1))
    attention_mask = (torch.arange(12) < lengths).long()
    ids = torch.randint(3, 32, (16, 12)) * attention_mask
    labels = (ids[:, 0] < 17).long()
    loss = model(input_ids=ids, attention_mask=attention_mask, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 5 == 0:
        print(step, loss.item())
