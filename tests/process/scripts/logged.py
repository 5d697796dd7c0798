"""Trainings that log with other libraries; every training writes a diary with its digest and the logged values.

Arguments: a folder and the names of the trainings; with ``--watched`` each is captured in a run of its own.
"""

import contextlib
import csv
import glob
import hashlib
import json
import os
import sys

import torch
from torch import nn

STEPS = 12


def batches(steps: int = STEPS) -> list:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(8, 4, generator=generator), torch.randint(3, (8,), generator=generator)) for _ in range(steps)]


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))


def digest(model: nn.Module) -> str:
    return hashlib.sha256(
        b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    ).hexdigest()


def train(log) -> nn.Module:
    """Run the training loop; ``log`` is called after every step with its number, the loss, and the model's output."""
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step, (features, labels) in enumerate(batches()):
        output = model(features)
        loss = nn.functional.cross_entropy(output, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log(step, loss, output, labels)
    return model


def share(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (output.argmax(1) == labels).float().mean()


def events(pattern: str) -> dict:
    """Return the scalars of TensorBoard's event files by tag."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found = {}
    for path in sorted(glob.glob(pattern, recursive=True)):
        for event in EventFileLoader(path).Load():
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "scalars":
                    found.setdefault(value.tag, []).append(value.tensor.float_val[0])
    return found


def tensorboard(folder: str) -> tuple:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(folder + "/board")

    def log(step, loss, output, labels):
        writer.add_scalar("train/loss", loss, step)
        writer.add_scalar(tag="train/accuracy", scalar_value=share(output, labels).item(), global_step=step)
        writer.add_histogram("output", output, step)
        if step % 4 == 3:
            writer.add_scalars("range", {"low": output.min(), "high": output.max()}, step)

    model = train(log)
    writer.add_scalar("final", 0.25)
    writer.close()
    kept = events(folder + "/board/events*")
    for side in ("low", "high"):
        kept[f"range/{side}"] = events(f"{folder}/board/range_{side}/events*")["range"]
    return model, kept


def tensorboardx(folder: str) -> tuple:
    from tensorboardX import SummaryWriter

    writer = SummaryWriter(folder + "/board")

    def log(step, loss, output, labels):
        writer.add_scalar("train/loss", loss.item(), step)
        writer.add_scalar("train/accuracy", share(output, labels).numpy(), step)
        writer.add_text("note", "nothing", step)

    model = train(log)
    writer.close()
    return model, events(folder + "/board/events*")


def wandb(folder: str) -> tuple:
    import wandb

    run = wandb.init(dir=folder, mode="offline", project="tests", settings=wandb.Settings(silent=True))

    def log(step, loss, output, labels):
        wandb.log({"train/loss": loss, "train": {"accuracy": share(output, labels).item()}}, commit=False)
        run.log({"step": step, "is_even": step % 2 == 0, "note": "text", "output": wandb.Histogram([1.0, 2.0])})

    model = train(log)
    wandb.finish()
    wandb.teardown()  # waits until its service process has written everything
    return model, offline_history(glob.glob(folder + "/wandb/offline-run*/*.wandb")[0])


def offline_history(path: str) -> dict:
    from wandb.proto.wandb_internal_pb2 import Record

    found = {}
    for data in offline_records(path):
        record = Record()
        record.ParseFromString(data)
        for item in record.history.item:
            name = item.key or ".".join(item.nested_key)
            value = json.loads(item.value_json)
            inner = {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, dict) else {name: value}
            for key, number in inner.items():
                if isinstance(number, (int, float)) and not key.startswith(("_", "output")):
                    found.setdefault(key, []).append(float(number))
    return found


def offline_records(path: str):
    """Yield the records of an offline run: a LevelDB log after a header of seven bytes."""
    with open(path, "rb") as file:
        data = file.read()
    at, parts = 7, []
    while at + 7 <= len(data):
        room = 32768 - at % 32768
        if room < 7:
            at += room
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        parts.append(data[at + 7 : at + 7 + length])
        at += 7 + length
        if kind in (1, 4):
            yield b"".join(parts)
            parts = []


def mlflow(folder: str) -> tuple:
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow
    from mlflow import log_metric
    from mlflow.utils.autologging_utils import BatchMetricsLogger

    mlflow.set_tracking_uri("file:" + folder + "/mlruns")
    with mlflow.start_run() as run:

        def log(step, loss, output, labels):
            log_metric("cross_entropy_output_0", loss.item(), step=step)
            mlflow.log_metrics({"accuracy": share(output, labels).item(), "step": step}, step=step)

        model = train(log)
        mlflow.log_param("steps", STEPS)
        collecting = BatchMetricsLogger(run.info.run_id)  # as in autologging and system metrics
        collecting.record_metrics({"collected": 1.0}, step=0)
        collecting.flush()
    client = mlflow.MlflowClient()
    names = ("cross_entropy_output_0", "accuracy", "step")
    return model, {
        name: [metric.value for metric in client.get_metric_history(run.info.run_id, name)] for name in names
    }


def torchmetrics(folder: str) -> tuple:
    from torch.utils.tensorboard import SummaryWriter
    from torchmetrics import MeanMetric, MetricCollection
    from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix, MulticlassF1Score

    accuracy, named, mean = MulticlassAccuracy(3), MulticlassF1Score(3), MeanMetric()
    several = MetricCollection([MulticlassAccuracy(3, average="micro"), MulticlassConfusionMatrix(3)], prefix="all/")
    writer = SummaryWriter(folder + "/board")
    kept = {"all/MulticlassAccuracy": []}

    def log(step, loss, output, labels):
        accuracy(output, labels)
        several(output, labels)
        writer.add_scalar("f1", named(output, labels), step)
        mean.update(loss)
        if step % 4 == 3:
            kept["all/MulticlassAccuracy"].append(several.compute()["all/MulticlassAccuracy"].item())
            mean.compute()
            mean.reset()

    model = train(log)
    accuracy.compute()
    writer.close()
    return model, kept | events(folder + "/board/events*")


def lightning(folder: str) -> tuple:
    import lightning

    return with_lightning(lightning, folder)


def pytorch_lightning(folder: str) -> tuple:
    import pytorch_lightning

    return with_lightning(pytorch_lightning, folder)


def with_lightning(library, folder: str) -> tuple:
    from torchmetrics.classification import MulticlassAccuracy

    loggers = __import__(
        f"{library.__name__}.pytorch.loggers" if library.__name__ == "lightning" else "pytorch_lightning.loggers",
        fromlist=["loggers"],
    )

    class Module(library.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.accuracy = small(), MulticlassAccuracy(3)

        def training_step(self, batch, index):
            loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.log("train_loss", loss)
            self.log("doubled", 2 * loss, on_step=True, on_epoch=True)
            return loss

        def validation_step(self, batch, index):
            output = self.net(batch[0])
            self.accuracy(output, batch[1])
            self.log("val_accuracy", self.accuracy)
            self.log("val_loss", nn.functional.cross_entropy(output, batch[1]))

        def on_train_epoch_end(self) -> None:
            self.logger.log_metrics({"epochs_done": self.current_epoch + 1.0}, self.global_step)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    class NoBatch(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index):
            return batches(6)[index]

    loader = torch.utils.data.DataLoader(NoBatch(), batch_size=None)
    trainer = library.Trainer(
        max_epochs=2,
        accelerator="cpu",
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        num_sanity_val_steps=1,
        logger=[loggers.TensorBoardLogger(folder, name="board"), loggers.CSVLogger(folder, name="table")],
    )
    module = Module()
    trainer.fit(module, loader, loader)
    kept = events(folder + "/board/version_0/events*")
    assert kept.keys() - {"hp_metric", "epochs_done"} <= {*table(folder + "/table/version_0/metrics.csv")}
    return module.net, {name: values for name, values in kept.items() if name not in ("epoch", "hp_metric")}


def table(path: str) -> dict:
    found = {}
    with open(path) as file:
        for row in csv.DictReader(file):
            for name, value in row.items():
                if value:
                    found.setdefault(name, []).append(float(value))
    return found


def transformers(folder: str) -> tuple:
    from transformers import Trainer, TrainingArguments

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = small()

        def forward(self, features=None, labels=None):
            output = self.net(features)
            return {"loss": nn.functional.cross_entropy(output, labels), "logits": output}

    rows = [
        {"features": one, "labels": label}
        for features, labels in batches()
        for one, label in zip(features, labels, strict=True)
    ]
    arguments = TrainingArguments(
        folder,
        max_steps=STEPS,
        per_device_train_batch_size=8,
        logging_steps=3,
        eval_strategy="steps",
        eval_steps=4,
        report_to=["tensorboard"],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        seed=3,
    )
    os.environ["TENSORBOARD_LOGGING_DIR"] = folder + "/board"
    model = Model()
    trainer = Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:32])
    trainer.train()
    by_step = {}
    for record in trainer.state.log_history:
        for name, value in record.items():
            by_step.setdefault(name, {})[record["step"]] = value
    assert {"train/loss", "eval/loss"} <= {*events(folder + "/**/events*")}
    return model, {name: [*values.values()] for name, values in by_step.items() if name not in ("step", "epoch")}


def accelerate(folder: str) -> tuple:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, log_with="tensorboard", project_dir=folder)
    accelerator.init_trackers("board")
    model = train(lambda step, loss, output, labels: accelerator.log({"train_loss": loss.item()}, step=step))
    accelerator.end_training()
    return model, events(folder + "/**/events*")


KINDS = (
    tensorboard,
    tensorboardx,
    wandb,
    mlflow,
    torchmetrics,
    lightning,
    pytorch_lightning,
    transformers,
    accelerate,
)


def watched(name: str) -> contextlib.AbstractContextManager:
    from watched_runs import captured, prepared

    return captured(prepared(["--preset", "light"], "logged.py", name))


def main() -> None:
    folder, *names = sys.argv[1:]
    torch.set_num_threads(1)
    for kind in KINDS:
        if kind.__name__ in names:
            own = os.path.join(folder, kind.__name__)
            os.makedirs(own, exist_ok=True)
            with watched(kind.__name__) if "--watched" in names else contextlib.nullcontext():
                model, kept = kind(own)
            with open(own + ".json", "w") as file:
                json.dump({"digest": digest(model), "kept": kept, "imported": sorted(sys.modules)}, file)


if __name__ == "__main__":
    main()
