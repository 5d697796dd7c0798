"""A training in this process, captured by a hook."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import _C
from torch.nn.modules import module as torch_module

import leadline
import leadline.torch
from leadline.reader.run import Run


def watch(
    folder: Path, train: Callable[[], Any], *capture: str, preset: str | None = None, may_fail: bool = False
) -> Run:
    """Return the run of a training; assert that nothing failed, was dropped, or is left in the framework.

    Args:
        may_fail: Whether facts may fail.
    """
    hook = leadline.torch.Hook(out=str(folder), name="run", preset=preset, capture=capture)
    session = hook.session
    assert session is not None
    try:
        train()
    finally:
        is_whole = hook.close()
    assert session.guard.failure is None, session.guard.failure
    assert may_fail or not session.context.facts.failures, session.context.facts.failures
    assert is_whole
    assert not torch_module._global_forward_hooks
    assert not torch_module._global_forward_pre_hooks
    assert _C._len_torch_function_stack() == 0
    return leadline.open_run(hook.run)


def scalars(run: Run, collection: str, mode: str = "train") -> dict[str, dict[int, float]]:
    """Return the values of a collection's scalars, by name and step within a mode."""
    found: dict[str, dict[int, float]] = {}
    for name in run.tensor_names(collection=collection):
        rows = [row for row in run.tensor(name).statistics("value").to_pylist() if row["mode"] == mode]
        if rows:
            found[name] = {row["mode_step"]: row["value"] for row in rows}
    return found
