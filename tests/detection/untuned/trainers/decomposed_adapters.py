"""PEFT with DoRA adapters for a classifier of sequences, in a loop of Accelerate."""

import torch
from accelerate import Accelerator
from peft import LoraConfig, TaskType, get_peft_model
from shared.tiny_models import STEPS, config, tell
from transformers import LlamaForSequenceClassification

settings = config()
settings.num_labels = 3
model = get_peft_model(
    LlamaForSequenceClassification(settings),
    LoraConfig(task_type=TaskType.SEQ_CLS, r=4, use_dora=True, target_modules=["q_proj", "v_proj", "down_proj"]),
)
tokens = torch.randint(4, 32, (512, 8))
labels = (tokens[:, -1] - 4) * 3 // 28
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tokens, labels), 16, shuffle=True)
accelerator = Accelerator(cpu=True)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
losses = []
model.train()
while len(losses) < STEPS:
    for batch, answers in loader:
        loss = model(input_ids=batch, attention_mask=torch.ones_like(batch), labels=answers).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if len(losses) == STEPS:
            break
tell("fell", "loss", losses)
