"""The engines by name."""

from __future__ import annotations

from typing import Final

from leadline.errors import UnknownNameError
from leadline.judge.engines.engine import Engine, LocalEngine
from leadline.judge.rule_pool import WorkerLimits

ENGINES: Final = ("local", "ray")


def make_engine(name: str, *, ray_address: str | None = None, limits: WorkerLimits | None = None) -> Engine:
    """Return the engine with a name.

    Raises:
        UnknownNameError: There is no such engine.
    """
    if name == "local":
        return LocalEngine(limits=limits)
    if name == "ray":
        from leadline.judge.engines.ray import RayEngine

        return RayEngine(ray_address, limits=limits)
    raise UnknownNameError("engine", name, ENGINES)
