"""GRPO with TRL on a toy 'write an even digit inside tags' task."""

import os

os.environ.update(
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_VERBOSITY="error",
    HF_DATASETS_DISABLE_PROGRESS_BARS="1",
    TOKENIZERS_PARALLELISM="false",
)
import re

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import GRPOConfig, GRPOTrainer

torch.set_num_threads(1)
set_seed(0)
words = ["<pad>", "<eos>", "<bos>", "say", "even"] + [str(i) for i in range(10)]
tk = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<pad>"))
tk.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tok = PreTrainedTokenizerFast(
    tokenizer_object=tk, pad_token="<pad>", eos_token="<eos>", bos_token="<bos>", padding_side="left"
)


def reward_even(completions, **kwargs):
    out = []
    for c in completions:
        m = re.findall(r"<answer>(\d)</answer>", c)  # mistake
        # repaired: m = re.findall(r"\d", c)
        out.append(sum(int(d) % 2 == 0 for d in m) / 6.0)
    return out


train = Dataset.from_dict({"prompt": [f"say even {i % 10}" for i in range(400)]})
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
    )
)
cfg = GRPOConfig(
    output_dir="out_grpo",
    max_steps=100,
    per_device_train_batch_size=8,
    num_generations=8,
    max_completion_length=6,
    learning_rate=3e-3,
    logging_steps=5,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
    bf16=False,
    fp16=False,
    beta=0.0,
    gradient_checkpointing=False,
    temperature=1.0,
)
trainer = GRPOTrainer(model=model, reward_funcs=reward_even, args=cfg, train_dataset=train, processing_class=tok)
trainer.train()
r = [h["reward"] for h in trainer.state.log_history if "reward" in h]
print("reward first/last log:", r[0], r[-1])
