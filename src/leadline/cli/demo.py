"""``leadline demo``: a real training with a planted fault, watched and stopped."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Annotated

import typer

from leadline.cli.run_setup import RunOptions, become_agent, prepare
from leadline.errors import ConfigurationError


def demo(
    out: Annotated[str | None, typer.Option(help="The folder below which runs stand.")] = None,
) -> None:
    """Train a small real model whose learning rate runs away, and watch Leadline catch and stop it."""
    if importlib.util.find_spec("torch") is None:
        raise ConfigurationError("the demo trains with PyTorch, which is not installed here: pip install torch")
    script = os.path.join(os.path.dirname(__file__), "demo_training.py")
    sys.stderr.write(
        "A byte-level language model learns, then its learning rate grows tenfold every 20 steps: a typing error\n"
        "in a schedule. Leadline watches the unchanged script:\n\n"
        "  $ leadline run --rule vanishing_gradient --on exploding_tensor=stop_training demo_training.py\n\n"
    )
    wishes = RunOptions(out=out, rules=("vanishing_gradient",), on=("exploding_tensor=stop_training",))
    command = [sys.executable, script]
    become_agent(prepare(wishes, command), ["--", *command])
