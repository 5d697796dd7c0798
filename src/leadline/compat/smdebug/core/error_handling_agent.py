"""The decorator that keeps errors of a debugger away from the training, in smdebug's interface."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from leadline.compat.smdebug.core.logger import get_logger
from leadline.instrumentation.guard import Guard

BASE_ERROR_MESSAGE: Final = "SMDebug error has occurred, disabling SMDebug for the rest of the training job."
Function = Callable[..., Any]


class ErrorHandlingAgent:
    """Guards functions of a script, such as methods of a subclass of a hook.

    The first error in one of them is logged, and disables all of them. What a hook does itself has Leadline's guard.
    """

    def __init__(self) -> None:
        self._guard = Guard(_log)

    @property
    def disable_smdebug(self) -> bool:
        """Whether an error has disabled the functions; False may be set, to enable them again."""
        return not self._guard.is_open

    @disable_smdebug.setter
    def disable_smdebug(self, is_disabled: bool) -> None:
        self._guard = Guard(_log)
        if is_disabled:
            self._guard.failure = "disabled by the script"

    def catch_smdebug_errors(
        self, default_return_val: Any = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator of functions.

        Args:
            default_return_val: What a disabled function returns; a function is called with its arguments.
        """

        def decorate(function: Function) -> Function:
            @functools.wraps(function)
            def guarded(*args: Any, **kwargs: Any) -> Any:
                value = self._guard.call(function, *args, **kwargs)
                if self._guard.is_open:
                    return value
                return default_return_val(*args, **kwargs) if callable(default_return_val) else default_return_val

            return guarded

        return decorate


def _log(failure: str) -> None:
    get_logger().error("%s %s", BASE_ERROR_MESSAGE, failure, exc_info=True)


error_handling_agent: Final = ErrorHandlingAgent()
