"""The report that each longer run gets at its end, rendered by a process that nobody waits for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import Final

from leadline.agent.signals import SignalGate
from leadline.config.report_choice import wants_report
from leadline.process.interpreter import own_command, own_environment
from leadline.records.documents import WorkerDocument
from leadline.records.totals import steps_by_mode
from leadline.store import layout
from leadline.store.upload_state import read_upload

_LIBRARIES: Final = ("jinja2", "plotly", "nbformat")
_FIRST_PID: Final = 1


def report_command(run: str) -> list[str]:
    """Return the command that writes the report of a run into its directory, at low priority."""
    return own_command("leadline.cli.final_report", run)


class FinalReport:
    """Has the report of a run rendered after its end.

    **Never delays the exit** - the process has a session of its own and outlives the agent.

    Args:
        warn: Shows a message in the terminal.
        choice: Whether there is to be a report; None: not said.
    """

    def __init__(
        self,
        run: str,
        environment: Mapping[str, str],
        gate: SignalGate,
        *,
        warn: Callable[[str], None],
        choice: bool | None,
    ) -> None:
        self._run, self._environment, self._gate = run, environment, gate
        self._warn, self._choice = warn, choice
        self._is_wanted = False

    def plan(self, seconds: float, workers: Iterable[WorkerDocument]) -> str | None:
        """Decide whether there will be a report, and return its path; None: there will be none.

        There is none of a run in an object store, which is uploaded by then, or where the process would end with this
        one: as the first process of a container.

        Args:
            seconds: How long the run took.
        """
        is_possible = not read_upload(self._run).uri and os.getpid() != _FIRST_PID and all(map(find_spec, _LIBRARIES))
        has_steps = bool(steps_by_mode(workers))
        self._is_wanted = is_possible and wants_report(self._choice, self._environment, seconds, has_steps=has_steps)
        return os.path.join(self._run, layout.report_page("report")) if self._is_wanted else None

    def start(self) -> None:
        """Start the process, if there will be a report."""
        if self._is_wanted:
            environment = own_environment(self._environment) | {"LEADLINE_DISABLED": "1"}
            try:
                self._gate.spawn(report_command(self._run), environment, has_own_session=True)
            except OSError as error:  # such as too many processes
                self._warn(f"the report is not rendered: {error.strerror}; render it with: leadline report")
