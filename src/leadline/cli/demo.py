"""``leadline demo``: a real training with a planted fault, monitored and stopped."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Annotated

import typer

from leadline.config.run_config import RunConfig
from leadline.errors import ConfigurationError
from leadline.launch.prepare import become_agent, prepare


def demo(
    out: Annotated[str | None, typer.Option(help="Runs directory; default: $LEADLINE_ROOT or ./leadline-runs.")] = None,
) -> None:
    """Train a small model with a fault that Leadline detects.

    Its learning rate schedule is wrong; a rule detects the exploding loss and stops the training.
    """
    if importlib.util.find_spec("torch") is None:
        raise ConfigurationError("the demo needs PyTorch; install it with: pip install torch")
    script = os.path.join(os.path.dirname(__file__), "demo_script", "demo_training.py")
    sys.stderr.write(
        "Training a byte-level language model whose learning rate, by an error in its schedule, grows tenfold every\n"
        "20 steps after step 120. Leadline monitors the unmodified script:\n\n"
        "  $ leadline run --rule vanishing_gradient --on exploding_tensor=stop_training demo_training.py\n\n"
    )
    options = RunConfig.from_options(out=out, rules=["vanishing_gradient"], on=["exploding_tensor=stop_training"])
    command = [sys.executable, script]
    become_agent(prepare(options, command), ["--", *command])
