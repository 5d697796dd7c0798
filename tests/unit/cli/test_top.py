"""``leadline top``: what it shows, how it follows, and what its keys do."""

from __future__ import annotations

import asyncio
import html
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
from textual.pilot import Pilot

from leadline.cli.top import folder_and_run, top
from leadline.cli.top_app import Top
from leadline.errors import ConfigurationError, MissingExtraError, RunNotFoundError
from leadline.judge.judge import judge_run
from leadline.reader.run import Run
from leadline.records.manifest import RuleSpec
from leadline.records.request import Profile, Stop
from leadline.store.control import read_requests
from leadline.testing.runs import Capture, RunWriter

RULES = [RuleSpec("exploding_tensor", "exploding_tensor")]
Scene = Callable[[Pilot[None]], Coroutine[None, None, None]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, last in (("broken", math.nan), ("healthy", 0.5)):
        losses = [1.0 - step / 100 for step in range(40)] + [last]
        writer = RunWriter(folder / name, rules=RULES)
        writer.write_all([Capture(step, {"loss": {"value": loss}}) for step, loss in enumerate(losses)])
        writer.end().set_status("Completed", exit_status=0, ended_ns=writer.manifest.started_ns + 10**10)
        judge_run(folder / name, write=True)
    return folder


def train(writer: RunWriter, steps: range, loss: float = 1.0, name: str = "loss") -> None:
    """Write steps of a training that goes on."""
    writer.write_all([Capture(step, {name: {"value": loss}}) for step in steps])
    writer.write_worker("rank0-1")


def played(folder: Path, scene: Scene, run: Path | None = None) -> None:
    """Play a scene on a screen of 140 columns."""

    async def play() -> None:
        app = Top(str(folder), Run(str(run)) if run is not None else None)
        async with app.run_test(size=(140, 50)) as pilot:
            await scene(pilot)

    asyncio.run(play())


def lines(pilot: Pilot[None]) -> list[str]:
    """Return the texts on the screen, by its picture."""
    rows = defaultdict[float, list[str]](list)
    picture = pilot.app.export_screenshot()
    for place, text in re.findall(r'<text [^>]*?y="([\d.]+)"[^>]*>([^<]*)</text>', picture):
        rows[float(place)].append(html.unescape(text).replace("\xa0", " "))
    return [" ".join(rows[place]) for place in sorted(rows)]


async def seen(pilot: Pilot[None], pattern: str) -> str:
    """Wait for a line; return it."""
    for _ in range(400):
        found = [line for line in lines(pilot) if re.search(pattern, line)]
        if found:
            return found[0]
        await pilot.pause(0.05)
    raise AssertionError(f"no {pattern!r} in:\n" + "\n".join(lines(pilot)))


def test_all_runs_are_listed_with_verdicts_and_one_is_opened(root: Path) -> None:
    async def scene(pilot: Pilot[None]) -> None:
        assert "▲ problem" in await seen(pilot, "broken")
        assert re.search("✓ ok +Completed +41", await seen(pilot, "healthy"))
        await pilot.press("down")
        first, second = await seen(pilot, "broken"), await seen(pilot, "healthy")
        await pilot.press("enter")
        opened = await seen(pilot, r"^\W*(broken|healthy) +Completed: 41 steps")
        above = lines(pilot).index(opened)
        assert above >= 0
        assert first != second
        await pilot.press("escape")
        await seen(pilot, "NAME +VERDICT")

    played(root, scene)


def test_a_run_shows_verdict_losses_and_findings(root: Path) -> None:
    async def scene(pilot: Pilot[None]) -> None:
        await seen(pilot, "Completed: 41 steps; 1 problem found by exploding_tensor: loss is NaN")
        assert "1 → NaN" in await seen(pilot, "█▇")
        await seen(pilot, "1 of 1 rule fired")
        await seen(pilot, "fired +step 40: loss is NaN")

    played(root, scene, root / "broken")


def test_a_running_training_is_followed(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "live")
    train(writer, range(3))

    async def scene(pilot: Pilot[None]) -> None:
        await seen(pilot, r"live +Running: 3 steps")
        assert "1 → 1 " in await seen(pilot, "^ ?loss")
        train(writer, range(3, 8), 0.25)
        await seen(pilot, r"live +Running: 8 steps")
        assert "1 → 0.25" in await seen(pilot, "^ ?loss")

    played(tmp_path, scene, tmp_path / "live")


def test_new_runs_come_first_and_the_chosen_one_stays_chosen(tmp_path: Path) -> None:
    first = RunWriter(tmp_path / "first")
    train(first, range(1))

    async def scene(pilot: Pilot[None]) -> None:
        await seen(pilot, " first ")  # not the folder, whose name has the word
        later = RunWriter(tmp_path / "later", started_ns=first.manifest.started_ns + 10**12)
        train(later, range(1))
        await seen(pilot, " later ")
        await seen(pilot, " first ")  # rows are drawn one after the other
        shown = lines(pilot)
        assert [name for line in shown for name in ("first", "later") if f" {name} " in line] == ["later", "first"]
        await pilot.press("enter")
        await seen(pilot, "first +Running: 1 step")

    played(tmp_path, scene)


def test_keys_request_a_profile_and_after_a_question_a_stop(tmp_path: Path) -> None:
    run = tmp_path / "live"
    train(RunWriter(run), range(1))

    async def scene(pilot: Pilot[None]) -> None:
        await seen(pilot, "Running: 1 step")
        await pilot.press("s")
        await seen(pilot, "Stop live at its next step")
        await pilot.press("n")
        await seen(pilot, "Running: 1 step")
        assert read_requests(str(run)) == []
        await pilot.press("s")
        await seen(pilot, "Stop live at its next step")
        await pilot.press("y")
        await seen(pilot, "stop of live requested")
        await pilot.press("p")
        await seen(pilot, "profile of the next step requested")

    played(tmp_path, scene, run)
    stop, profile = sorted(read_requests(str(run)), key=lambda request: request.time_ns)
    assert isinstance(stop, Stop)
    assert isinstance(profile, Profile)
    assert {stop.reason, profile.reason} == {"leadline top"}


def test_a_run_that_has_ended_is_not_stopped(root: Path) -> None:
    async def scene(pilot: Pilot[None]) -> None:
        await seen(pilot, "Completed: 41 steps")
        await pilot.press("s")
        await seen(pilot, "Stop healthy")
        await pilot.press("y")
        await seen(pilot, "healthy is not running")

    played(root, scene, root / "healthy")


def test_control_characters_of_names_are_not_shown(tmp_path: Path) -> None:
    train(RunWriter(tmp_path / "a\x1b[31mrun"), range(1), name="lo\x1b]0;ss")

    async def scene(pilot: Pilot[None]) -> None:
        await seen(pilot, r"a\?\[31mrun")
        await pilot.press("enter")
        await seen(pilot, r"a\?\[31mrun +Running")
        assert not any("\x1b" in line for line in lines(pilot))

    played(tmp_path, scene)


def test_a_run_that_is_deleted_is_said_to_be_gone(tmp_path: Path) -> None:
    train(RunWriter(tmp_path / "gone"), range(1))

    async def scene(pilot: Pilot[None]) -> None:
        await seen(pilot, "gone")
        (tmp_path / "gone" / "manifest.json").write_text("{")
        await pilot.press("enter")
        await seen(pilot, "manifest")

    played(tmp_path, scene)


def test_a_folder_or_a_run_is_shown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_ROOT", str(root))
    assert folder_and_run(None) == (str(root), None)
    assert folder_and_run(str(root)) == (str(root), None)
    for place in ("healthy", str(root / "healthy")):
        folder, run = folder_and_run(place)
        assert run is not None
        assert (folder, run.name) == (str(root), "healthy")
    with pytest.raises(RunNotFoundError):
        folder_and_run("absent")


def test_one_line_says_what_is_missing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="needs a terminal; leadline ls and leadline show"):
        top(str(root))
    monkeypatch.delitem(sys.modules, "leadline.cli.top_app")
    for name in [name for name in sys.modules if name.partition(".")[0] == "textual"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'leadline\[top\]'"):
        top(str(root))
