# Asked as: custom compute_loss with gradient_accumulation_steps, the loss is N times as large (Transformers issues)
import tempfile

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

set_seed(0)


class MyTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs["input_ids"]
        outputs = model(input_ids=labels, attention_mask=torch.ones_like(labels))
        loss = F.cross_entropy(outputs.logits[:, :-1].reshape(-1, 32), labels[:, 1:].reshape(-1))
        if model.training:
            loss = loss / 1  # mistake
            # repaired: loss = loss / self.args.gradient_accumulation_steps
        return (loss, outputs) if return_outputs else loss


samples = []
for _ in range(160):
    ids = (torch.randint(0, 29, (1,)) + 3 * torch.arange(12)) % 29 + 3
    samples.append({"input_ids": ids, "labels": ids})
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=32, n_positions=16, n_embd=32, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=2)
)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        max_steps=10,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=4,
        learning_rate=2e-3,
        save_strategy="no",
        logging_steps=2,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    MyTrainer(model, arguments, train_dataset=samples).train()
