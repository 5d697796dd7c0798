"""``leadline.watch()`` in a real notebook kernel: it replaces an earlier run and ends with the kernel."""

from __future__ import annotations

import json
import os
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launching import PATIENCE, descendants, environment, only_run, wait_for

import leadline
from leadline.monitor.processes import list_pids
from leadline.records.names import JOB_ENDED
from leadline.store import layout
from leadline.store.documents import read_document

with warnings.catch_warnings(action="ignore"):
    from jupyter_client.manager import KernelManager

EXAMPLES = Path(__file__).parents[2] / "examples"
TRAIN = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def train(steps, spoil=1.0):
    for _ in range(steps):
        optimizer.zero_grad()
        (spoil * model(torch.ones(4, 3)).pow(2).mean()).backward()
        optimizer.step()
"""


class Kernel:
    """A kernel that runs cells like a notebook."""

    def __init__(self, manager: KernelManager) -> None:
        self.manager = manager
        self.client = manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)

    @property
    def pid(self) -> int:
        return int(self.manager.provisioner.pid)

    def run(self, cell: str) -> dict[str, str]:
        """Run a cell; return what its last expression displays by MIME type."""
        shown: dict[str, str] = {}
        problems: list[str] = []

        def take(message: dict[str, Any]) -> None:
            if message["msg_type"] in ("execute_result", "display_data"):
                shown.update(message["content"]["data"])
            elif message["msg_type"] == "error":
                problems.append("\n".join(message["content"]["traceback"]))

        self.client.execute_interactive(cell, output_hook=take, timeout=PATIENCE)
        assert not problems, problems
        return shown

    def wait_for_update(self, *words: str) -> None:
        """Wait until a display is updated to HTML with these words."""
        deadline = time.monotonic() + PATIENCE
        while True:
            message = self.client.get_iopub_msg(timeout=deadline - time.monotonic())
            if message["msg_type"] == "update_display_data":
                html = message["content"]["data"]["text/html"]
                if all(word in html for word in words):
                    return


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path), env=environment(JUPYTER_PLATFORM_DIRS="1"))
    found = Kernel(manager)
    yield found
    found.client.stop_channels()
    manager.shutdown_kernel(now=True)


def ours(run: str) -> list[int]:
    """Return the agent, judge and rule workers of a run."""
    found = []
    for pid in list_pids():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(b"leadline.") for word in words) and os.fsencode(run) in words:
            found += [pid, *descendants(pid)]
    return sorted(set(found))


def status(run: str) -> str:
    return str((read_document(os.path.join(run, layout.STATUS)) or {}).get("status"))


def test_a_cell_shows_the_verdict_and_running_it_again_replaces(kernel: Kernel) -> None:
    kernel.run(TRAIN)
    shown = kernel.run("import leadline\nwatching = leadline.watch(model, name='first')\nwatching")
    assert shown["text/plain"].startswith("WatchedRun('")
    assert "first" in shown["text/html"]
    assert "no step yet" in shown["text/html"]
    first = kernel.run("import os; str(os.fspath(watching))")["text/plain"].strip("'")
    wait_for(lambda: status(first) == "InProgress", "the agent")
    kernel.run("train(30); train(1, spoil=float('nan')); train(3)")

    def verdict() -> str | None:
        html = kernel.run("watching")["text/html"]
        return html if "exploding_tensor" in html and "loss is NaN" in html and "34 steps" in html else None

    html = wait_for(verdict, "the verdict")
    assert "step 30" in html
    assert "try: " in html
    second = kernel.run("watching = leadline.watch(model, name='second')\nstr(watching)")["text/plain"].strip("'")
    assert second != first
    wait_for(lambda: status(first) in JOB_ENDED and not ours(first), "the end of the first run")
    assert status(first) == "Completed"
    wait_for(lambda: status(second) == "InProgress", "the second agent")
    assert kernel.run(f"open('/proc/self/task/{kernel.pid}/children').read()")["text/plain"] == "''"


def test_a_display_is_live_while_a_cell_trains_and_stays_as_the_run_has_ended(kernel: Kernel, tmp_path: Path) -> None:
    """The cell trains until its display has shown it: a display that waits for the end of the cell never does."""
    kernel.run(TRAIN)
    kernel.run("import leadline, os, time\nwatching = leadline.watch(model, name='live')\nwatching")
    kernel.client.execute("train(30, spoil=float('nan'))\nwhile not os.path.exists('seen'): time.sleep(0.01)")
    kernel.wait_for_update("exploding_tensor", "loss is NaN")
    (tmp_path / "seen").touch()
    kernel.client.execute("following = leadline.watch(model, name='following')")
    kernel.wait_for_update("live</b>", "Completed")
    still = "[thread.name for thread in threading.enumerate()].count('leadline-display')"
    wait_for(lambda: kernel.run(f"import threading; {still}")["text/plain"] == "0", "the end of the updates")
    assert "Completed" in kernel.run("leadline.open_run(watching)")["text/html"]


@pytest.mark.slow
def test_the_first_notebook_finds_its_mistake_and_none_in_the_mended_training(kernel: Kernel) -> None:
    document = json.loads((EXAMPLES / "first_notebook.ipynb").read_text())
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            kernel.run("".join(cell["source"]))
    broken = kernel.run("str(run)")["text/plain"].strip("'")
    wait_for(lambda: status(broken) in JOB_ENDED, "the end of the first run")
    shown = leadline.open_run(broken)._repr_html_()
    assert "nonfinite_origin" in shown
    assert "log" in shown
    wait_for(lambda: "1,000 steps" in kernel.run("mended")["text/html"], "the verdict")
    assert "class=found" not in kernel.run("mended")["text/html"]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["kill", "restart", "shutdown"])
def test_all_processes_of_a_run_end_with_the_kernel(kernel: Kernel, tmp_path: Path, ending: str) -> None:
    kernel.run(TRAIN)
    run = kernel.run("import leadline\nstr(leadline.watch(model))")["text/plain"].strip("'")
    kernel.run("train(5)")
    wait_for(lambda: len(ours(run)) >= 2, "the agent and its judge")
    if ending == "kill":
        os.kill(kernel.pid, signal.SIGKILL)
    elif ending == "restart":
        kernel.manager.restart_kernel(now=True)
    else:
        kernel.client.shutdown()
    begun = time.monotonic()
    wait_for(lambda: not ours(run), "the end of everything")
    assert time.monotonic() - begun < PATIENCE
    assert status(run) in JOB_ENDED
    assert (status(run) == "Completed") == (ending == "shutdown")
    assert only_run(tmp_path / "leadline-runs").path == run


@pytest.mark.slow
def test_a_killed_agent_does_not_affect_the_kernel(kernel: Kernel) -> None:
    kernel.run(TRAIN)
    run = kernel.run("import leadline\nwatching = leadline.watch(model)\nstr(watching)")["text/plain"].strip("'")
    kernel.run("train(5)")
    agent = wait_for(lambda: (read_document(os.path.join(run, layout.STATUS)) or {}).get("agent_pid"), "the agent")
    os.kill(agent, signal.SIGKILL)
    kernel.run("train(5)")
    wait_for(lambda: "10 steps" in kernel.run("watching")["text/html"], "the steps after it")
    os.kill(kernel.pid, signal.SIGKILL)
    wait_for(lambda: not ours(run), "the end of the judge")
