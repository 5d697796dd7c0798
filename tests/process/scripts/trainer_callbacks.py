"""Small trainings with the trainers of several libraries, and the callback of ``leadline.integrations`` for each.

Arguments: kinds. Each is trained bare, captured without its callback and with it (called), and with a request to stop
at step 9. Prints ``KIND HOW DIGEST STEPS`` for each, with the steps that the trainer itself has counted.
"""

import contextlib
import glob
import hashlib
import os
import sys
import tempfile

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TF_CPP_MIN_LOG_LEVEL": "2"}
STEPS = 20


def settings(folder):
    return {
        "output_dir": folder,
        "per_device_train_batch_size": 4,
        "max_steps": STEPS,
        "logging_steps": 1,
        "save_steps": 5,
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
    }


def ended(trainer, folder):
    trainer.save_state()
    assert os.path.exists(os.path.join(folder, "trainer_state.json"))
    return digest(trainer.model), trainer.state.global_step


def transformers(folder, is_called):
    from trainers import batches, conversations, llama
    from transformers import Trainer, TrainingArguments

    from leadline.integrations.transformers import LeadlineCallback

    callbacks = [LeadlineCallback()] if is_called else []
    trainer = Trainer(llama(), TrainingArguments(**settings(folder)), batches, conversations(), callbacks=callbacks)
    trainer.train()
    return ended(trainer, folder)


def peft(folder, is_called):
    from peft import LoraConfig, get_peft_model
    from trainers import batches, conversations, llama
    from transformers import Trainer, TrainingArguments

    from leadline.integrations.transformers import LeadlineCallback

    callbacks = [LeadlineCallback()] if is_called else []
    model = get_peft_model(llama(), LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    trainer = Trainer(model, TrainingArguments(**settings(folder)), batches, conversations(), callbacks=callbacks)
    trainer.train()
    return ended(trainer, folder)


def trl(folder, is_called):
    from datasets import Dataset
    from trainers import conversations, llama, tokens
    from trl import SFTConfig, SFTTrainer

    from leadline.integrations.transformers import LeadlineCallback

    callbacks = [LeadlineCallback()] if is_called else []
    config = SFTConfig(**settings(folder), max_length=32, completion_only_loss=True, gradient_checkpointing=False)
    rows = Dataset.from_list(conversations())
    trainer = SFTTrainer(llama(), config, train_dataset=rows, processing_class=tokens(), callbacks=callbacks)
    trainer.train()
    return ended(trainer, folder)


def examples():
    import torch

    made = torch.Generator().manual_seed(0)
    x = torch.randn(80, 8, generator=made)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))


def lightning(folder, is_called):
    import lightning as L
    import torch
    from lightning.pytorch.callbacks import ModelCheckpoint
    from lightning.pytorch.loggers import CSVLogger

    from leadline.integrations.lightning import LeadlineCallback

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch):
            loss = torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    callbacks = [ModelCheckpoint(folder, every_n_train_steps=5, save_top_k=-1)]
    trainer = L.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=CSVLogger(folder),
        callbacks=[*callbacks, *([LeadlineCallback()] if is_called else [])],
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )
    module = Module()
    trainer.fit(module, torch.utils.data.DataLoader(examples(), 8))
    trainer.save_checkpoint(os.path.join(folder, "last.ckpt"))
    return digest(module), trainer.global_step


def accelerate(folder, is_called):
    import torch
    from accelerate import Accelerator

    from leadline.integrations.accelerate import LeadlineTracker

    trackers = ["tensorboard", LeadlineTracker()] if is_called else ["tensorboard"]
    accelerator = Accelerator(cpu=True, log_with=trackers, project_dir=folder)
    accelerator.init_trackers("tests", config={"lr": 0.01, "width": 8, "max_train_steps": STEPS})
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    loader = torch.utils.data.DataLoader(examples(), 4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        accelerator.log({"squared": loss.item(), "step_number": step}, step=step)
    accelerator.end_training()
    return digest(model), STEPS


def stable_baselines3(folder, is_called):
    import gymnasium
    import numpy as np
    from stable_baselines3 import DQN
    from stable_baselines3.common.callbacks import CheckpointCallback

    from leadline.integrations.stable_baselines3 import LeadlineCallback

    class Walk(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, seed=None, options=None):
            super().reset(seed=seed)
            self.place = np.zeros(2, np.float32)
            self.time = 0
            return self.place, {}

        def step(self, action):
            self.time += 1
            self.place = np.clip(self.place + (0.1 if action else -0.1), -1, 1).astype(np.float32)
            return self.place, float(self.place[0]), self.time == 8, False, {}

    settings = {"learning_starts": 4, "train_freq": 1, "batch_size": 4, "buffer_size": 100, "seed": 0}
    model = DQN("MlpPolicy", Walk(), **settings, device="cpu", policy_kwargs={"net_arch": [8]})
    callbacks = [CheckpointCallback(8, folder), *([LeadlineCallback()] if is_called else [])]
    model.learn(STEPS + 4, callback=callbacks, log_interval=1)
    model.save(os.path.join(folder, "model"))
    return digest(model.q_net), model._n_updates


def keras(folder, is_called):
    import keras
    import numpy as np

    from leadline.integrations.keras import LeadlineCallback

    keras.backend.clear_session()  # names begin again
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).normal(size=(80, 8)).astype(np.float32)
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    saving = keras.callbacks.ModelCheckpoint(os.path.join(folder, "epoch{epoch}.weights.h5"), save_weights_only=True)
    callbacks = [saving, *([LeadlineCallback()] if is_called else [])]
    model.fit(x, x.sum(1, keepdims=True), batch_size=8, epochs=2, verbose=0, callbacks=callbacks)
    data = b"".join(np.asarray(weight).tobytes() for weight in model.get_weights())
    return hashlib.sha256(data).hexdigest(), int(model.optimizer.iterations)


FUNCTIONS = (transformers, peft, trl, lightning, accelerate, stable_baselines3)
KINDS = {function.__name__: function for function in FUNCTIONS}
KINDS |= dict.fromkeys(("keras", "keras_on_torch", "keras_on_jax"), keras)
SAVED = ("checkpoint-*", "epoch*", "*.zip")
HOWS = {"peft": ("bare", "stopped"), "trl": ("bare", "stopped"), "accelerate": ("bare", "captured", "called")}


def digest(model):
    import torch

    values = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    return hashlib.sha256(values.numpy().tobytes()).hexdigest()


def train(kind, how):
    if not kind.startswith("keras"):
        import torch

        torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, watched(f"{kind}-{how}", how):
        told = KINDS[kind](folder, how in ("called", "stopped"))
        if how == "called":
            print(f"saved {kind}", *sorted(path for name in SAVED for path in glob.glob(f"{folder}/{name}")))
    return told


def watched(name, how):
    from watched_runs import captured, prepared

    from leadline.records.request import Stop
    from leadline.store import control

    if how == "bare":
        return contextlib.nullcontext()
    run = prepared([], "trainer_callbacks.py", name)
    if how == "stopped":
        request = Stop(id=control.new_request_id(), step=9, reason="tests", by="tests", time_ns=0)
        control.write_request(run, request)
    return captured(run)


if __name__ == "__main__":
    for kind in sys.argv[1:]:
        for how in HOWS.get(kind, ("bare", "captured", "called", "stopped")):
            print(kind, how, *train(kind, how), flush=True)
