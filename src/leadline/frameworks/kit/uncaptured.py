"""Notes about ways to train that are not captured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.patches import Patches
from leadline.training.guard import Guard


class Uncaptured:
    """Notices what is not captured when the script begins to use it; the script is not disturbed.

    Args:
        reasons: Why something is not captured, and what is instead, by its name.
        note: Takes a line about something that cannot be captured.

    Attributes:
        seen: What the script uses of it.
    """

    def __init__(self, reasons: Mapping[str, str], note: Callable[[str], None]) -> None:
        self.seen: list[str] = []
        self._reasons, self._note = reasons, note
        self._patches = Patches()
        self._imports: ImportWatch | None = None

    @property
    def gaps(self) -> dict[str, str]:
        """The reasons of what the script uses."""
        return {what: self._reasons[what] for what in self.seen}

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
        if what not in self.seen:
            self.seen.append(what)
            self._note(f"{what}: {self._reasons[what]}")
