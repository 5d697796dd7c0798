"""The screens of ``leadline top``; every figure is made by what ``leadline ls`` and ``leadline show`` print."""

from __future__ import annotations

import os
import time
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.timer import Timer
from textual.widgets import DataTable, Footer, Static
from textual.worker import get_current_worker

from leadline.analysis.digest import Digest
from leadline.analysis.overview import overview
from leadline.cli.console import LEVEL_STYLES
from leadline.cli.ls import COLUMNS, cells
from leadline.cli.measurements import machine_block, sparkline_lines, time_block
from leadline.cli.report import build_judged, report_path, write_files
from leadline.cli.run_page import checkpoint_line, headline, rule_block, state_line
from leadline.control.requests import ask, profile_request, stop_request
from leadline.control.responses import await_answers
from leadline.errors import LeadlineError
from leadline.process.child import Child
from leadline.process.interpreter import own_command, own_environment
from leadline.reader.find_runs import find_run, list_runs
from leadline.reader.run import Run
from leadline.reader.summary import RunSummary
from leadline.records import describe
from leadline.records.formatting import printable
from leadline.records.names import JOB_ENDED

_MIN_SECONDS: Final = 0.5
_SHARE: Final = 10.0
"""A screen stays for this many times as long as it took to read, so that a tenth of a core is used at most."""
_MAX_RUNS: Final = 500
_MAX_OUTCOME: Final = 160
_PATIENCE_SECONDS: Final = 10
_REASON: Final = "leadline top"

Blocks = Mapping[str, RenderableType | None]


class Printable:
    """A renderable that shows control characters within texts as ``?``: they never reach the terminal."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self._renderable, options):
            yield Segment(text if control else printable(text, keep="\n"), style, control)


class Confirmation(ModalScreen[bool]):
    """A question that is answered by y; every other answer is no."""

    DEFAULT_CSS = """
    Confirmation { align: center middle; }
    Confirmation > Vertical { width: auto; max-width: 90%; height: auto; padding: 1 2; border: round $warning; }
    Confirmation Static { width: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape,q", "answer(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(printable(self._question), markup=False)
            yield Static("y: yes    n: no", markup=False)

    def action_answer(self, answer: bool) -> None:
        """Close the question."""
        self.dismiss(answer)


class LiveScreen(Screen[None]):
    """A screen that is read in a thread again and again while it is shown."""

    class Read(Message):
        """What was read, or why it could not be."""

        def __init__(self, content: Any, problem: str, seconds: float) -> None:
            super().__init__()
            self.content, self.problem, self.seconds = content, problem, seconds

    _is_reading = False
    _next: Timer | None = None

    def on_screen_resume(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """Read, unless that is under way or something else is shown."""
        if self.is_current and not self._is_reading:
            self._is_reading = True
            self.run_worker(self._read, thread=True, group="read")

    def _read(self) -> None:
        began, content, problem = time.monotonic(), None, ""
        try:
            content = self.read()
        except (LeadlineError, OSError) as error:
            problem = str(error)
        self.post_message(self.Read(content, problem, time.monotonic() - began))

    def on_live_screen_read(self, message: Read) -> None:
        if message.problem:
            self.show_problem(message.problem)
        elif self.is_mounted:
            self.show_content(message.content)
        self._is_reading = False
        if self._next is not None:
            self._next.stop()
        self._next = self.set_timer(max(_MIN_SECONDS, _SHARE * message.seconds), self._begin)

    def read(self) -> Any:
        """Return what the screen shows; called in a thread."""
        raise NotImplementedError

    def show_content(self, content: Any) -> None:
        """Show what was read."""
        raise NotImplementedError

    def show_problem(self, problem: str) -> None:
        """Say in a line why nothing can be read; what was shown stays."""
        self.query_one("#problem", Static).update(Text(printable(problem), style="red"))


def _reading(what: str) -> Text:
    """What is shown until something was read."""
    return Text(printable(f"reading {what} …"), style="dim")


class RunsScreen(LiveScreen):
    """All runs of a folder, the latest first, each with its verdict.

    Args:
        folder: The runs directory, or its URI.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "app.quit", "Quit")]

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder
        self._runs: Sequence[RunSummary] = ()

    def compose(self) -> ComposeResult:
        yield Static(Text.assemble((printable(f"runs in {self._folder}"), "bold"), ("   Enter opens one", "dim")))
        yield Static(_reading("runs"), id="problem")
        yield DataTable[Text](cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(DataTable).add_columns(*COLUMNS)

    def read(self) -> list[RunSummary]:
        return list_runs(self._folder)[:_MAX_RUNS]

    def show_content(self, content: Sequence[RunSummary]) -> None:
        table = self.query_one(DataTable)
        at = table.cursor_row
        chosen = self._runs[at].path if at < len(self._runs) else None
        self._runs = content
        table.clear()
        for run in content:
            table.add_row(*_row(run), key=run.path)
        paths = [run.path for run in content]
        if chosen in paths:
            table.move_cursor(row=paths.index(chosen), animate=False)
        none = "" if content else "no runs yet; create one with: leadline run train.py"
        self.query_one("#problem", Static).update(Text(none, style="dim"))

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        try:
            self.app.push_screen(RunScreen(Run(find_run(str(event.row_key.value), self._folder))))
        except LeadlineError as error:
            self.show_problem(str(error))


def _row(run: RunSummary) -> list[Text]:
    style = LEVEL_STYLES[run.outcome.level]
    texts = [*cells(run), run.outcome.brief[:_MAX_OUTCOME]]
    return [
        Text(printable(text), style=style if title == "VERDICT" else "")
        for title, text in zip(COLUMNS, texts, strict=True)
    ]


class RunScreen(LiveScreen):
    """One run: verdict, losses, findings, time and machine."""

    class KeyOutcome(Message):
        """What became of a key."""

        def __init__(self, text: str, *, is_error: bool) -> None:
            super().__init__()
            self.text, self.is_error = text, is_error

    DEFAULT_CSS = "RunScreen .block { height: auto; margin-bottom: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop", "Stop"),
        Binding("p", "profile", "Profile"),
        Binding("d", "dashboard", "Dashboard"),
        Binding("r", "report", "Report"),
        Binding("escape", "back", "All runs"),
        Binding("q", "app.quit", "Quit"),
    ]
    _BLOCKS: ClassVar = ("verdict", "state", "losses", "time", "machine", "rules")

    def __init__(self, opened: Run) -> None:
        super().__init__()
        self._run = opened
        self._digest: Digest | None = None

    def compose(self) -> ComposeResult:
        yield Static(_reading(self._run.name), id="problem")
        yield Static(id="notice")
        with VerticalScroll():
            for name in self._BLOCKS:
                yield Static(id=name, classes="block")
        yield Footer()

    def read(self) -> Blocks:
        if self._digest is None:
            self._digest = Digest(self._run)
        else:
            self._run.refresh()
            self._digest.refresh()
        summary = overview(self._run)
        rules, counts, times = summary["rules"], summary["outcome"]["rules"], summary["time"]
        return {
            "verdict": headline(summary),
            "state": Text("\n".join(filter(None, (state_line(summary), checkpoint_line(summary)))), style="dim"),
            "losses": sparkline_lines(self._digest, self.size.width),
            "time": time_block(times, has_problem=summary["outcome"]["level"] in ("fatal", "warning")),
            "machine": machine_block(times["usage"]),
            "rules": rule_block(rules, counts, has_ended=summary["status"] in JOB_ENDED),
        }

    def show_content(self, content: Blocks) -> None:
        self.query_one("#problem", Static).update("")
        for name, block in content.items():
            place = self.query_one(f"#{name}", Static)
            place.display = block is not None
            if block is not None:
                place.update(Printable(block))

    # --- keys ---------------------------------------------------------------------------------------------

    def action_back(self) -> None:
        """Return to the list."""
        self.app.pop_screen()

    def action_stop(self) -> None:
        """Ask, then request a stop."""

        def answered(is_confirmed: bool | None) -> None:
            if is_confirmed:
                self._in_thread(self._stop)

        self.app.push_screen(Confirmation(f"Stop {self._run.name} at its next step?"), answered)

    def action_profile(self) -> None:
        """Profile the next step."""
        self._in_thread(self._profile)

    def action_report(self) -> None:
        """Write the report, and open it."""
        self._in_thread(self._report)

    def action_dashboard(self) -> None:
        """Serve the dashboard, and open it at this run."""
        self._in_thread(self._dashboard)

    def _in_thread(self, do: Callable[[], str]) -> None:
        def work() -> None:
            try:
                self._report_outcome(do())
            except (LeadlineError, OSError) as error:
                self._report_outcome(str(error), is_error=True)

        self.run_worker(work, thread=True, group="keys")

    def _report_outcome(self, text: str, *, is_error: bool = False) -> None:
        """Say what became of a key; called in a thread."""
        self.post_message(self.KeyOutcome(text, is_error=is_error))

    def on_run_screen_key_outcome(self, message: KeyOutcome) -> None:
        style = "red" if message.is_error else "cyan"
        self.query_one("#notice", Static).update(Text(printable(message.text), style=style))

    def _stop(self) -> str:
        ask(self._run, stop_request(reason=_REASON))
        return f"stop of {self._run.name} requested"

    def _profile(self) -> str:
        request = profile_request(reason=_REASON)
        ask(self._run, request)
        self._report_outcome("profile of the next step requested")
        for _ in range(_PATIENCE_SECONDS):
            answers = await_answers(self._run, [request], 1.0)[request.id]
            if answers or get_current_worker().is_cancelled:
                return "; ".join(map(describe.response, answers))
        return f"no worker reached a step boundary within {_PATIENCE_SECONDS} s; the profile is pending"

    def _report(self) -> str:
        self._report_outcome("writing the report")
        path = report_path(None, self._run)
        write_files(build_judged(self._run), path, self._run, is_notebook=False, with_notebook=False)
        whole = os.path.abspath(path)
        return f"{whole}{'' if open_in_browser(Path(whole).as_uri()) else ': open it in a browser'}"

    def _dashboard(self) -> str:
        app = self.app
        assert isinstance(app, Top)
        return app.serve_dashboard(self._run.path)


class Top(App[None]):
    """Runs in the terminal.

    Args:
        folder: The runs directory, or its URI.
        opened: The run that is shown first; None: the list is.
    """

    TITLE = "leadline top"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, folder: str, opened: Run | None = None) -> None:
        super().__init__()
        self._folder, self._opened = folder, opened
        self._dashboards: dict[str, tuple[Child, str]] = {}

    def on_mount(self) -> None:
        self.push_screen(RunsScreen(self._folder))
        if self._opened is not None:
            self.push_screen(RunScreen(self._opened))

    def serve_dashboard(self, run: str) -> str:
        """Serve the dashboard until the end of this app, and open it at a run; return its address.

        Raises:
            LeadlineError: It cannot be served.
        """
        if run not in self._dashboards:
            self._dashboards[run] = start_dashboard(run)
        return f"dashboard: {self._dashboards[run][1]}"

    def on_unmount(self) -> None:
        for child, _ in self._dashboards.values():
            child.close()


def start_dashboard(run: str) -> tuple[Child, str]:
    """Start the dashboard of a run in a process; return it, and the address that it prints.

    Raises:
        LeadlineError: It has not started.
    """
    reader, writer = os.pipe()
    try:
        command = own_command("leadline", "ui", run, "--open")
        child = Child(command, own_environment(), streams={1: writer}, keeps_errors=True, has_own_session=True)
    finally:
        os.close(writer)
    with os.fdopen(reader, encoding="utf-8", errors="replace") as output:
        line = output.readline().strip()
    if not line:
        child.wait()
        problem = child.error_line
        child.close()
        raise LeadlineError(problem)
    return child, line.removeprefix("leadline").partition("   (")[0].strip()


def open_in_browser(uri: str) -> bool:
    """Open a page in a browser with a window; return whether there is one. One of text would take this terminal."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    return type(browser) is not webbrowser.GenericBrowser and browser.open(uri)
