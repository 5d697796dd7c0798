"""A small training with the fault planted that a rule is for, or its healthy twin.

Usage: faults.py RULE… [--healthy] [--until FILE] [--digest]; with a file the process goes on after its training until
that is there; with ``--digest`` it prints the SHA-256 of the final weights. Each docstring tells the command, what is
found at which step, and which tensors are named.
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
import faults_of_updates
import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

MOST_SECONDS = 20.0
"""How long it waits for the file."""


class Training(Protocol):
    """One fault; its name is the rule's."""

    def __call__(self, *, healthy: bool) -> None: ...


def trainings() -> dict[str, Training]:
    """The training of each rule, by the rule's name."""
    places = (faults_of_data, faults_of_layers, faults_of_losses, faults_of_updates)
    functions = [each for place in places for each in vars(place).values() if isinstance(each, FunctionType)]
    return {each.__name__: each for each in functions if [*each.__annotations__] == ["healthy", "return"]}


def print_digests(names: list[str], *, healthy: bool) -> None:
    latest: list[Optimizer] = []

    def note(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        latest[:] = [optimizer]

    register_optimizer_step_post_hook(note)
    for name in names:
        torch.manual_seed(0)
        trainings()[name](healthy=healthy)
        weights = [each for group in latest[0].param_groups for each in group["params"]]
        print(name, hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in weights)).hexdigest())


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
