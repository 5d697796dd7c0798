# Asked as: I added a second LoRA adapter and train it, but the output is that of the first (peft issues, set_adapter)
import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2ForSequenceClassification

torch.manual_seed(0)
base = GPT2ForSequenceClassification(
    GPT2Config(
        vocab_size=32, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2, pad_token_id=0
    )
)
settings = LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True)
model = get_peft_model(base, settings, adapter_name="first")
model.add_adapter("second", settings)
model.set_adapter("first")  # mistake
# repaired: model.set_adapter("second")
for name, parameter in model.named_parameters():
    parameter.requires_grad = ".second." in name or "score" in name

optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
for step in range(25):
    ids = torch.randint(3, 32, (16, 12))
    labels = (ids[:, 0] < 17).long()
    loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 5 == 0:
        print(step, loss.item())
