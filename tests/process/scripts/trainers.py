"""Small trainings with trainers that people use, with random weights.

Arguments: the kinds, ``KIND-faulty`` for its mistake. Those after ``--watched`` are captured, each in a run of its own.

Prints each kind with a digest of its weights at the end.
"""

import contextlib
import hashlib
import os
import sys
import tempfile

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

IS_FAULTY = False
STEPS = 20
SETTINGS = {
    "per_device_train_batch_size": 8,
    "learning_rate": 2e-3,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
    "use_cpu": True,
    "bf16": False,
    "disable_tqdm": True,
    "max_steps": STEPS,
}


def tokens():
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["<pad>", "<s>", "</s>", "<unk>", *[f"w{i}" for i in range(28)]]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def llama():
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return LlamaForCausalLM(config)


def conversations():
    rows = []
    for _ in range(8 * STEPS):
        prompt = torch.randint(4, 32, (int(torch.randint(2, 6, (1,))),)).tolist()
        answer = [prompt[0]] * 3 + [2]
        rows.append({"input_ids": prompt + answer, "completion_mask": [0] * len(prompt) + [1] * len(answer)})
    return rows


def sft(folder):
    """Mistake: the collator shifts the labels, which the model does, too."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    model = llama()
    settings = SFTConfig(folder, **SETTINGS, max_length=32, completion_only_loss=True, gradient_checkpointing=False)
    rows = Dataset.from_list(conversations())
    trainer = SFTTrainer(model, settings, train_dataset=rows, processing_class=tokens())
    if IS_FAULTY:
        collate = trainer.data_collator

        def shift(examples):
            batch = collate(examples)
            ignored = torch.full_like(batch["labels"][:, :1], -100)
            return {**batch, "labels": torch.cat([batch["labels"][:, 1:], ignored], 1)}

        trainer.data_collator = shift
    trainer.train()
    return model


def fine_tuned(folder, rows, *, length):
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    model = llama()
    settings = SFTConfig(folder, **SETTINGS, max_length=length, completion_only_loss=True, gradient_checkpointing=False)
    SFTTrainer(model, settings, train_dataset=Dataset.from_list(rows), processing_class=tokens()).train()
    return model


def drawn(low, high):
    return torch.randint(4, 32, (int(torch.randint(low, high, (1,))),)).tolist()


def shortened(folder):
    """Mistake: the maximum length is shorter than every other prompt."""
    rows = []
    for _ in range(8 * STEPS):
        prompt = drawn(6, 20)
        answer = [prompt[0]] * 3 + [2]
        rows.append({"input_ids": prompt + answer, "completion_mask": [0] * len(prompt) + [1] * len(answer)})
    return fine_tuned(folder, rows, length=12 if IS_FAULTY else 32)


def cut_answers(folder):
    """Mistake: the maximum length is shorter than every other answer."""
    rows = []
    for _ in range(8 * STEPS):
        answer = [*drawn(4, 24), 2]
        rows.append({"input_ids": [4, *answer], "completion_mask": [0] + [1] * len(answer)})
    return fine_tuned(folder, rows, length=14 if IS_FAULTY else 32)


def grpo(folder):
    """Mistake: the reward is the same for every completion."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    def reward(completions, **_):
        return [0.0 if IS_FAULTY else float(len(set(text.split()))) for text in completions]

    prompts = [{"prompt": f"w{index % 28} w{index % 5}"} for index in range(8 * STEPS)]
    model = llama()
    settings = GRPOConfig(
        folder, **SETTINGS, num_generations=4, max_completion_length=8, gradient_checkpointing=False, temperature=1.0
    )
    GRPOTrainer(
        model, reward, args=settings, train_dataset=Dataset.from_list(prompts), processing_class=tokens()
    ).train()
    return model


def batches(rows):
    width = max(len(row["input_ids"]) for row in rows)
    ids = torch.tensor([row["input_ids"] + [0] * (width - len(row["input_ids"])) for row in rows])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": ids.masked_fill(ids == 0, -100)}


def lora(folder):
    """Mistake: the optimizer is made before the adapters, and holds the frozen weights."""
    from peft import LoraConfig, get_peft_model

    base = llama()
    optimizer = torch.optim.AdamW(base.parameters(), lr=2e-3) if IS_FAULTY else None
    model = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    arguments = TrainingArguments(folder, **SETTINGS)
    Trainer(model, arguments, batches, conversations(), optimizers=(optimizer, None)).train()
    return model


def new_tokens(folder):
    """Mistake: two tokens are added as the mean of the others, and only adapters are trained."""
    from peft import LoraConfig, get_peft_model

    base = llama()
    base.resize_token_embeddings(34, mean_resizing=False)
    with torch.no_grad():
        rows = base.get_input_embeddings().weight
        rows[32:] = rows[:32].mean(0)
    trained = None if IS_FAULTY else ["embed_tokens", "lm_head"]
    model = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], modules_to_save=trained))
    rows = [{"input_ids": [32, *row["input_ids"][:-4], 33, *row["input_ids"][-4:]]} for row in conversations()]
    Trainer(model, TrainingArguments(folder, **SETTINGS), batches, rows).train()
    return model


class Reset(TrainerCallback):
    """Sets the moments of the optimizer to 0 when a training begins."""

    def on_train_begin(self, args, state, control, optimizer=None, **others):
        for moments in optimizer.state.values():
            moments["exp_avg"].zero_()
            moments["exp_avg_sq"].zero_()


def resumed(folder):
    """The checkpoint of step 10 is resumed by another trainer; mistake: without the moments of its optimizer."""
    settings = SETTINGS | {"save_strategy": "steps", "save_steps": 10}
    first = Trainer(llama(), TrainingArguments(folder, **settings | {"max_steps": 10}), batches, conversations())
    first.train()
    model = llama()
    callbacks = [Reset()] if IS_FAULTY else []
    second = Trainer(model, TrainingArguments(folder, **settings), batches, conversations(), callbacks=callbacks)
    second.train(os.path.join(folder, "checkpoint-10"))
    return model


def ended(folder):
    """Mistake: the token of padding is that of the end, and the collator ignores padding."""
    from transformers import DataCollatorForLanguageModeling

    model, tokenizer = llama(), tokens()
    if IS_FAULTY:
        tokenizer.pad_token = tokenizer.eos_token
        model.config.pad_token_id = tokenizer.pad_token_id
    rows = [{"input_ids": row["input_ids"]} for row in conversations()]
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    Trainer(model, TrainingArguments(folder, **SETTINGS), collator, rows).train()
    return model


def packed_batches(rows):
    """Pack four conversations in each row, cut off at the same length."""
    length = 22
    packs = [rows[at : at + 4] for at in range(0, len(rows), 4)]
    joined = [[token for row in pack for token in row["input_ids"]][:length] for pack in packs]
    places = [[at for row in pack for at in range(len(row["input_ids"]))][:length] for pack in packs]
    ids, positions = torch.tensor(joined), torch.tensor(places)
    batch = {"input_ids": ids, "position_ids": positions, "labels": ids.masked_fill(positions == 0, -100)}
    return batch | ({"attention_mask": torch.ones_like(ids)} if IS_FAULTY else {})


def packed(folder):
    """Mistake: a mask of ones, with which Transformers does not separate the conversations of a row."""
    model = llama()
    model.config.use_cache = False
    Trainer(model, TrainingArguments(folder, **SETTINGS), packed_batches, conversations()).train()
    return model


def templated(folder):
    """Mistake: the template is a label, as are the questions."""
    model, template = llama(), [1, 4, 5, 6, 7, 8]

    def collate(rows):
        batch = batches([{"input_ids": template + row["input_ids"]} for row in rows])
        for row, labels in zip(rows, batch["labels"], strict=True):
            labels[: 0 if IS_FAULTY else len(template) + len(row["completion_mask"]) - 4] = -100
        return batch

    settings = TrainingArguments(folder, **SETTINGS, remove_unused_columns=False)
    Trainer(model, settings, collate, conversations()).train()
    return model


def dialogues(folder):
    """Mistake: questions are labels, too. They begin differently; the template is between question and answer."""
    config = llama().config
    config.vocab_size = 600
    model, template = LlamaForCausalLM(config), [590, 591, 592, 593, 594]
    rows = []
    for _ in range(8 * STEPS):
        question = torch.randint(4, 580, (int(torch.randint(2, 6, (1,))),)).tolist()
        rows.append({"input_ids": [*question, *template, question[0], 2], "length": len(question) + len(template)})

    def collate(rows):
        batch = batches(rows)
        for row, labels in zip(rows, batch["labels"], strict=True):
            labels[: 0 if IS_FAULTY else row["length"]] = -100
        return batch

    settings = TrainingArguments(folder, **SETTINGS, remove_unused_columns=False)
    Trainer(model, settings, collate, rows).train()
    return model


def pretrained(folder):
    """Mistake: the texts do not begin with the token that the model was pretrained with."""
    llama().save_pretrained(folder)
    model = LlamaForCausalLM.from_pretrained(folder)
    begin = [] if IS_FAULTY else [1]
    rows = [{"input_ids": begin + row["input_ids"]} for row in conversations()]
    Trainer(model, TrainingArguments(folder, **SETTINGS), batches, rows).train()
    return model


def experts(folder):
    """Mistake: the loss that balances the experts has the wrong sign."""
    from transformers import MixtralConfig, MixtralForCausalLM

    torch.manual_seed(0)
    config = MixtralConfig(
        vocab_size=32,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=8,
        num_experts_per_tok=2,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        output_router_logits=True,
        router_aux_loss_coef=-1.0 if IS_FAULTY else 0.1,
    )
    model = MixtralForCausalLM(config)
    settings = SETTINGS | {"max_steps": 160, "learning_rate": 5e-3}
    Trainer(model, TrainingArguments(folder, **settings), batches, conversations()).train()
    return model


def ranks(folder):
    """Accelerate on the ranks of torchrun. Mistake: the loader is not prepared, and each rank reads all batches."""
    from accelerate import Accelerator
    from gloo import destroy_process_group

    accelerator = Accelerator(cpu=True)
    model = llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loader = torch.utils.data.DataLoader(conversations(), 4, collate_fn=batches)
    model, optimizer = accelerator.prepare(model, optimizer)
    loader = loader if IS_FAULTY else accelerator.prepare(loader)
    for _, batch in zip(range(STEPS), loader, strict=False):
        optimizer.zero_grad()
        accelerator.backward(model(**batch).loss)
        optimizer.step()
    destroy_process_group()
    return accelerator.unwrap_model(model)


FUNCTIONS = (
    sft,
    shortened,
    cut_answers,
    grpo,
    lora,
    resumed,
    new_tokens,
    ended,
    packed,
    templated,
    dialogues,
    pretrained,
    experts,
    ranks,
)
KINDS = {function.__name__: function for function in FUNCTIONS}


OPTIONS = {"experts": ["--rule", "expert_balance:captures=5"]}


def watched(name):
    """Capture what ``leadline run`` would, without a budget."""
    from watched_runs import captured, prepared

    return captured(prepared(OPTIONS.get(name.partition("-")[0], []), "trainers.py", name))


def train(name):
    """Train a kind; return a digest of its weights."""
    global IS_FAULTY
    kind, _, mistake = name.partition("-")
    IS_FAULTY = bool(mistake)
    set_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        model = KINDS[kind](folder)
    values = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    return hashlib.sha256(values.numpy().tobytes()).hexdigest()


def main():
    torch.set_num_threads(1)
    is_watched = False
    for name in sys.argv[1:]:
        if name == "--watched":
            is_watched = True
            continue
        with watched(name) if is_watched else contextlib.nullcontext():
            digest = train(name)
        print(f"{f'watched {name}' if is_watched else name} {digest}\n", end="", flush=True)  # ranks print, too


if __name__ == "__main__":
    main()
