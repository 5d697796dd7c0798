"""What the trainings with trainers share: a tokenizer of words, a small Llama, and their settings."""

import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

STEPS = int(sys.argv[1])
SEED = int(sys.argv[2])
WORDS = 28
PAD, BEGIN, END = 0, 1, 2
set_seed(SEED)
torch.set_num_threads(1)


def tokenizer():
    words = ["<pad>", "<s>", "</s>", "<unk>", *[f"w{i}" for i in range(WORDS)]]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def config():
    return LlamaConfig(
        vocab_size=4 + WORDS,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=PAD,
        bos_token_id=BEGIN,
        eos_token_id=END,
    )


def llama():
    return LlamaForCausalLM(config())


def settings(steps, rate, **others):
    """Return arguments that all trainers of Transformers and TRL know."""
    return {
        "max_steps": steps,
        "learning_rate": rate,
        "per_device_train_batch_size": 8,
        "logging_steps": 5,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "seed": SEED,
        "disable_tqdm": True,
        **others,
    }


def numbers(low, high, count):
    return torch.randint(low, high, (count,)).tolist()


def logged(trainer, name):
    """Return the values of a metric that a trainer has logged."""
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def tell(direction, name, values):
    """Print how a metric went, from its first logged values to its last ones."""
    count = max(len(values) // 5, 1)
    print(f"{name} {direction} from {sum(values[:count]) / count:.4g} to {sum(values[-count:]) / count:.4g}")
