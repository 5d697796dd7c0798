"""TensorBoard: ``SummaryWriter.add_scalar`` and ``add_scalars``, PyTorch's own and tensorboardX's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, Final

from leadline.frameworks.loggers.replacement import Logger, Replacement
from leadline.frameworks.loggers.tap import Tap


def _replacements(library: ModuleType, tap: Tap) -> Iterable[Replacement]:
    yield Replacement(library.SummaryWriter, "add_scalar", tap.after(_scalar))
    yield Replacement(library.SummaryWriter, "add_scalars", tap.after(_scalars))


def _scalar(writer: object, tag: str, scalar_value: Any, *rest: object, **others: object) -> dict[str, Any]:
    return {tag: scalar_value}


def _scalars(
    writer: object, main_tag: str, tag_scalar_dict: Mapping[str, Any], *rest: object, **others: object
) -> dict[str, Any]:
    """``add_scalars`` makes one plot of several runs; here their names are joined."""
    return {f"{main_tag}/{tag}": value for tag, value in tag_scalar_dict.items()}


TENSORBOARD: Final = Logger("torch.utils.tensorboard", {"torch.utils.tensorboard.writer": _replacements})
TENSORBOARDX: Final = Logger("tensorboardX", {"tensorboardX.writer": _replacements})
