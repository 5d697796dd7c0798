"""The training of JAX with facts about loss calls, for the contract of adapters."""

from __future__ import annotations

import runpy
from pathlib import Path

_JAX = runpy.run_path(str(Path(__file__).with_name("trained_by_jax.py")))
CAPTURE, owners, train = ["checks:every=1"], _JAX["owners"], _JAX["train"]
