"""Check of the patches of logging libraries while Leadline is active and after it is closed.

Prints as JSON, for a session that begins before the libraries are imported and one that begins after, which functions
were replaced, which were not restored, and how often Dynamo compiled a function with metrics; also how often it did
without Leadline, and what trainers tell of their steps. The argument is a folder.
"""

import copy
import json
import os
import pickle
import sys

import torch
import torch._dynamo


def functions() -> dict:
    """Return the functions that Leadline replaces, with their owners, by name."""
    import lightning.pytorch.trainer.connectors.logger_connector.logger_connector as connector
    import lightning.pytorch.trainer.connectors.logger_connector.result as result
    import torchmetrics
    from lightning.fabric import Fabric
    from lightning.fabric.loggers import CSVLogger
    from mlflow import MlflowClient
    from tensorboardX import SummaryWriter as OtherWriter
    from torch.utils.tensorboard import SummaryWriter
    from transformers import Trainer
    from wandb.sdk.wandb_run import Run

    places = (
        (SummaryWriter, "add_scalar"),
        (SummaryWriter, "add_scalars"),
        (OtherWriter, "add_scalar"),
        (Run, "_log"),
        (OtherWriter, "add_scalars"),
        (SummaryWriter, "_get_file_writer"),
        (OtherWriter, "_get_file_writer"),
        (MlflowClient, "log_metric"),
        (MlflowClient, "log_batch"),
        (Trainer, "log"),
        (torchmetrics.MetricCollection, "compute"),
        (Fabric, "log_dict"),
        (CSVLogger, "log_metrics"),
        (result._ResultCollection, "update_metrics"),
        (connector._LoggerConnector, "log_metrics"),
        (connector._LoggerConnector, "update_train_step_metrics"),
    )
    return {f"{owner.__name__}.{name}": vars(owner)[name] for owner, name in places}


def compiled() -> dict:
    """Return Dynamo's counters for a function that computes and logs a metric."""
    import torchmetrics

    model, metric = torch.nn.Linear(4, 3), torchmetrics.MeanSquaredError()
    metrics = torchmetrics.MetricCollection([torchmetrics.MeanSquaredError()])

    def loss(features: torch.Tensor) -> torch.Tensor:
        output = model(features)
        metrics.update(output[:, 0], output[:, 1])
        return output.pow(2).mean() + 0 * metric(output[:, 0], output[:, 1]) + 0 * sum(metrics.compute().values())

    step = torch.compile(loss, backend="eager")
    for _ in range(3):
        step(torch.randn(8, 4)).backward()
    counters = torch._dynamo.utils.counters
    return {name: dict(counters[name]) for name in ("stats", "frames", "graph_break")}


def copies() -> list:
    """Return the values of a used metric after copying and pickling."""
    import torchmetrics

    metric = torchmetrics.MetricCollection([torchmetrics.MeanSquaredError()])
    metric(torch.ones(2), torch.zeros(2))
    both = copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))
    return [metric.compute()["MeanSquaredError"].item() for metric in both]


def compiled_in_child() -> dict:
    """Return the same from a process that ends before Leadline is imported."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with open(writing, "w") as answer:
            json.dump(compiled(), answer)
        os._exit(0)
    os.close(writing)
    with open(reading) as answer:
        found = json.load(answer)
    os.waitpid(child, 0)
    return found


def session(folder: str, early: dict) -> dict:
    """Capture, and return what was different meanwhile, and is afterwards.

    Args:
        early: The functions before; none if the libraries were not imported.
    """
    import leadline.torch

    hook = leadline.torch.Hook(out=folder)
    during = functions()
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    result = {"copies": copies(), "compiled": compiled()}
    hook.close()
    after = functions()
    result["replaced"] = sorted(name for name in during if during[name] is not after[name])
    result["all"] = sorted(during)
    result["left"] = sorted(name for name in early if early[name] is not after[name])
    result["are_names_kept"] = all(during[name].__qualname__ == after[name].__qualname__ for name in during)
    result["finders"] = [str(finder) for finder in sys.meta_path]
    return result


def main() -> None:
    folder = sys.argv[1]
    told = {"bare": compiled_in_child(), "begins_first": session(f"{folder}/first", {})}
    told["begins_last"] = session(f"{folder}/last", functions())
    from counted_by_trainers import seen_by_trainers

    print(json.dumps(told | {"steps": seen_by_trainers(folder)}))


if __name__ == "__main__":
    main()
