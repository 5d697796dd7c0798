"""SFT with TRL on pre-tokenised data: prompt = digits, answer = sorted digits."""

import os

os.environ.update(
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_VERBOSITY="error",
    HF_DATASETS_DISABLE_PROGRESS_BARS="1",
    TOKENIZERS_PARALLELISM="false",
)
import random

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

torch.set_num_threads(1)
set_seed(0)
words = ["<pad>", "<eos>", "<user>", "<assistant>"] + [str(i) for i in range(12)]
vocab = {w: i for i, w in enumerate(words)}
tk = Tokenizer(models.WordLevel(vocab, unk_token="<pad>"))
tk.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tok = PreTrainedTokenizerFast(tokenizer_object=tk, pad_token="<pad>", eos_token="<eos>")


def rows(n, seed):
    r = random.Random(seed)
    out = {"input_ids": [], "completion_mask": []}
    for _ in range(n):
        d = [r.randrange(12) for _ in range(4)]
        prompt = [vocab["<user>"]] + [vocab[str(i)] for i in d] + [vocab["<assistant>"]]
        answer = [vocab[str(max(d))], vocab[str(min(d))], vocab["<eos>"]]
        out["input_ids"].append(prompt + answer)
        out["completion_mask"].append([1] * len(prompt) + [0] * len(answer))  # mistake
        # repaired: out["completion_mask"].append([0] * len(prompt) + [1] * len(answer))
    return Dataset.from_dict(out)


model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(words),
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
)
cfg = SFTConfig(
    output_dir="out_sft",
    max_steps=200,
    per_device_train_batch_size=32,
    learning_rate=5e-3,
    logging_steps=20,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
    bf16=False,
    fp16=False,
    max_length=32,
    gradient_checkpointing=False,
    completion_only_loss=True,
    lr_scheduler_type="constant",
    eos_token="<eos>",
)
SFTTrainer(model=model, args=cfg, train_dataset=rows(4000, 1), processing_class=tok).train()
model.eval()
test = torch.tensor(rows(200, 7)["input_ids"])
with torch.no_grad():
    p = model(input_ids=test).logits.argmax(-1)
print("answer token accuracy: %.3f" % (p[:, 5:8] == test[:, 6:9]).float().mean())
