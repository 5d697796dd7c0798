"""What a script uses that is not captured, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.patches import Patches
from leadline.instrumentation.guard import Guard


class Uncaptured:
    """Notices what is not captured when the script begins to use it; the script is not disturbed.

    Args:
        reasons: Why something is not captured, and what is instead, by its name.
        note: Takes a line about something that cannot be captured.

    Attributes:
        gaps: What the script uses that is not captured, or only in part, and why.
    """

    def __init__(self, reasons: Mapping[str, str], note: Callable[[str], None]) -> None:
        self.gaps: dict[str, str] = {}
        self._reasons = reasons
        self._note = note
        self._patches = Patches()
        self._imports: ImportWatch | None = None

    def refuse(self, function: str, values: str, why: str) -> None:
        """Note once that some values of a function are not captured."""
        if function not in self.gaps:
            self._note(f"{values} of {function} are not captured: {why}")
        self.gaps[function] = f"{values} are not captured: {why}"

    def install(self, guard: Guard, calls: Iterable[tuple[Any, str, str]], modules: Iterable[str] = ()) -> None:
        """Begin to watch.

        Args:
            calls: A class, the name of a method, and what the script uses with a call of it.
            modules: Modules that the script uses if it imports them.
        """

        def notice_before(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
            def make(original: Callable[..., Any]) -> Callable[..., Any]:
                def noticed(*args: Any, **kwargs: Any) -> Any:
                    guard.run(self._notice, what)
                    return original(*args, **kwargs)

                return noticed

            return make

        for owner, method, what in calls:
            self._patches.replace(owner, method, notice_before(what))
        self._imports = ImportWatch(list(modules), guard.wrap(self._on_import))
        self._imports.install()

    def uninstall(self) -> None:
        """Stop watching."""
        self._patches.restore()
        if self._imports is not None:
            self._imports.uninstall()

    def _on_import(self, name: str, module: ModuleType) -> None:
        self._notice(name)

    def _notice(self, what: str) -> None:
        if what not in self.gaps:
            self.gaps[what] = self._reasons[what]
            self._note(f"{what}: {self._reasons[what]}")
