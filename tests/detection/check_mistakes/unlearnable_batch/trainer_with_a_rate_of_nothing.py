# Asked as: Trainer loss stays at 0.693, learning_rate=5e-10 was a typo (Transformers forum)
import tempfile

import torch
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments, set_seed

set_seed(0)
samples = []
for _ in range(320):
    ids = torch.randint(4, 40, (10,))
    samples.append({"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": int(ids[1] < 22)})
model = DistilBertForSequenceClassification(
    DistilBertConfig(vocab_size=40, dim=32, hidden_dim=64, n_layers=1, n_heads=4, initializer_range=0.1, num_labels=2)
)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        learning_rate=5e-10,  # mistake
        # repaired: learning_rate=3e-3,
        num_train_epochs=1,
        per_device_train_batch_size=16,
        save_strategy="no",
        logging_steps=5,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    Trainer(model, arguments, train_dataset=samples).train()
