"""State of a thread within nested module calls."""

from __future__ import annotations

import threading

from leadline.frameworks.torch.capture.module_values import LOSS_FUNCTIONS
from leadline.frameworks.torch.hooks.function_mode import FunctionMode
from leadline.frameworks.torch.naming.module_names import ModelModules


class CallState(threading.local):
    """Position of a thread within nested module calls."""

    depth = 0
    is_captured = False
    """Whether the current outermost call is captured."""
    model: ModelModules | None = None
    mode: FunctionMode | None = None

    def __init__(self) -> None:
        self.stack: list[tuple[str, str]] = []
        """Name and kind of each captured module that is running, the innermost last."""

    def function_stem(self, kind: str) -> str | None:
        """Return the name of a function's tensors; None if its module captures them, or nothing is captured."""
        if self.depth == 0:
            return kind
        if not self.is_captured or not self.stack or self.model is None:
            return None
        name, module_kind = self.stack[-1]
        if not name or module_kind.removesuffix("loss") == kind.replace("_", "").removesuffix("loss"):
            return None
        if LOSS_FUNCTIONS.get(module_kind) == kind:
            return None
        if len(self.stack) == 1 and name == self.model.root_name:
            return f"{self.model.prefix}{kind}"
        return f"{name}.{kind}"
