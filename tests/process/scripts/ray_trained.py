"""Train with two workers of Ray Train, at first without Leadline: ray_trained.py.

Writes a digest of the weights of each; then a loss becomes NaN, and a rule stops both workers.
"""

import hashlib
import os
import tempfile
import time

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TRAIN_V2_ENABLED": "1"}
import ray
import ray.train
import ray.train.torch
import torch
from ray.train import RunConfig, ScalingConfig

from leadline.integrations.ray import watched

FOLDER = os.getcwd()
STEPS = 20


def train_loop(config):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = ray.train.torch.prepare_model(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    made = torch.Generator().manual_seed(ray.train.get_context().get_world_rank())
    for step in range(config["steps"]):
        x = torch.randn(4, 8, generator=made)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        if step >= config["nan_at"]:
            loss = loss * float("nan")
            time.sleep(0.01)
        loss.backward()
        optimizer.step()
        if step % 5 == 4 and step < STEPS:
            report(model, step, {"score": step / 10, "comment": "text"})
    data = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    if ray.train.get_context().get_world_rank() == 0:
        with open(config["digest"], "w") as file:
            file.write(hashlib.sha256(data).hexdigest())


def report(model, step, metrics):
    """Report metrics, and the weights at each second time by the first worker."""
    if step % 10 != 9 or ray.train.get_context().get_world_rank() > 0:
        ray.train.report(metrics)
        return
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), f"{folder}/weights.pt")
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))


def fit(function, name, steps=STEPS, nan_at=10**9):
    trainer = ray.train.torch.TorchTrainer(
        function,
        train_loop_config={"steps": steps, "nan_at": nan_at, "digest": f"{FOLDER}/{name}"},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=name, storage_path=f"{FOLDER}/ray"),
    )
    assert trainer.fit().error is None


if __name__ == "__main__":
    ray.init("local", num_cpus=3, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=True)
    fit(train_loop, "bare")
    fit(watched(train_loop, run=f"{FOLDER}/runs/healthy"), "healthy")
    stopping = ["exploding_tensor=stop_training"]
    fit(watched(train_loop, run=f"{FOLDER}/runs/broken", on=stopping), "broken", 20_000, 20)
    ray.shutdown()
