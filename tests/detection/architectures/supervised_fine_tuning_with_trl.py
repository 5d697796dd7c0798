"""The SFTTrainer of TRL on tokenized conversations, whose prompts are not trained on."""

import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

set_seed(0)
words = ["<pad>", "<s>", "</s>", "<unk>", *[f"w{i}" for i in range(28)]]
tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
)
rows = []
for _ in range(96):
    prompt = torch.randint(4, 32, (int(torch.randint(2, 6, (1,))),)).tolist()
    answer = [prompt[0]] * 3 + [2]
    rows.append({"input_ids": prompt + answer, "completion_mask": [0] * len(prompt) + [1] * len(answer)})
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=32,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
)
with tempfile.TemporaryDirectory() as folder:
    settings = SFTConfig(
        folder,
        max_steps=20,
        per_device_train_batch_size=8,
        learning_rate=2e-3,
        logging_steps=5,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
        max_length=32,
        completion_only_loss=True,
        gradient_checkpointing=False,
        disable_tqdm=True,
    )
    SFTTrainer(model, settings, train_dataset=Dataset.from_list(rows), processing_class=tokenizer).train()
