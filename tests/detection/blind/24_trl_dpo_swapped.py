"""DPO with TRL; pairs are built from graded answers."""

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
from trl import DPOConfig, DPOTrainer

torch.set_num_threads(1)
set_seed(0)
words = ["<pad>", "<eos>", "<bos>", "q", "good", "fine", "poor", "rude"] + [str(i) for i in range(8)]
tk = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<pad>"))
tk.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tok = PreTrainedTokenizerFast(tokenizer_object=tk, pad_token="<pad>", eos_token="<eos>", bos_token="<bos>")
rank = {"good": 1, "fine": 2, "poor": 3, "rude": 4}  # annotators rank the answers, 1 = best

rnd = random.Random(0)
data = {"prompt": [], "chosen": [], "rejected": []}
for _ in range(1200):
    q = f"q {rnd.randrange(8)} {rnd.randrange(8)}"
    a, b = rnd.sample(list(rank), 2)
    better, worse = (a, b) if rank[a] > rank[b] else (b, a)  # mistake
    # repaired: better, worse = (a, b) if rank[a] < rank[b] else (b, a)
    data["prompt"].append(q + " ")
    data["chosen"].append(better)
    data["rejected"].append(worse)


def lm():
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(words),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=2,
        )
    )


model, ref = lm(), lm()
ref.load_state_dict(model.state_dict())
cfg = DPOConfig(
    output_dir="out_dpo",
    max_steps=100,
    per_device_train_batch_size=8,
    learning_rate=5e-4,
    logging_steps=10,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
    bf16=False,
    fp16=False,
    beta=0.1,
    gradient_checkpointing=False,
    max_length=16,
)
DPOTrainer(model=model, ref_model=ref, args=cfg, train_dataset=Dataset.from_dict(data), processing_class=tok).train()
model.eval()
with torch.no_grad():
    ids = tok("q 3 5", return_tensors="pt").input_ids
    p = model(ids).logits[0, -1].log_softmax(-1)
print("log-probs after training:", {w: round(p[words.index(w)].item(), 2) for w in rank})
