"""Small trainings with the faults that rules detect, and their healthy twins.

Usage: faults.py RULE… [--healthy] [--until FILE] [--digest]; with ``--until`` the process continues after its training
until the file exists; with ``--digest`` it prints the SHA-256 of the final weights. The docstrings of the trainings
give the command, the step and message of the finding, and the tensors it names.
"""

import argparse
import hashlib
import os
import time
from types import FunctionType
from typing import Any, Protocol

import faults_of_data
import faults_of_layers
import faults_of_losses
import faults_of_rewards
import faults_of_updates
import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

MOST_SECONDS = 20.0
"""Longest wait for the file."""


class Training(Protocol):
    """A training with a fault, named after its rule."""

    def __call__(self, *, healthy: bool) -> None: ...


def trainings() -> dict[str, Training]:
    """Return the trainings by the names of their rules."""
    modules = (faults_of_data, faults_of_layers, faults_of_losses, faults_of_rewards, faults_of_updates)
    functions = [item for module in modules for item in vars(module).values() if isinstance(item, FunctionType)]
    return {train.__name__: train for train in functions if [*train.__annotations__] == ["healthy", "return"]}


def print_digests(names: list[str], *, healthy: bool) -> None:
    latest: list[Optimizer] = []

    def note(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        latest[:] = [optimizer]

    register_optimizer_step_post_hook(note)
    for name in names:
        torch.manual_seed(0)
        trainings()[name](healthy=healthy)
        weights = [weight for group in latest[0].param_groups for weight in group["params"]]
        print(name, hashlib.sha256(b"".join(weight.detach().numpy().tobytes() for weight in weights)).hexdigest())


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("rules", nargs="+", choices=trainings())
    options.add_argument("--healthy", action="store_true")
    options.add_argument("--until", default="")
    options.add_argument("--digest", action="store_true")
    given = options.parse_args()
    torch.set_num_threads(1)
    if given.digest:
        print_digests(given.rules, healthy=given.healthy)
        return
    for name in given.rules:
        torch.manual_seed(0)
        trainings()[name](healthy=given.healthy)
    latest = time.monotonic() + MOST_SECONDS
    while given.until and not os.path.exists(given.until) and time.monotonic() < latest:
        time.sleep(0.02)


if __name__ == "__main__":
    main()
