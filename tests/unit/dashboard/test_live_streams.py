"""What pages hear of runs: one look for all viewers, an event when something came, an end when the server ends."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

from leadline.dashboard import live_events
from leadline.dashboard.change_stamp import ChangeStamp, RootChangeStamp
from leadline.dashboard.live_events import Watchers
from leadline.store.documents import append_line
from leadline.testing.runs import Capture, RunWriter


class Counter:
    """Counts how often it looked; ``state`` is what it sees."""

    made = 0

    def __init__(self, _: str) -> None:
        Counter.made += 1
        self.looks = 0
        self.state: dict[str, Any] = {"status": "InProgress", "parts": {}}

    def look(self) -> dict[str, Any]:
        self.looks += 1
        return dict(self.state)


def capture(step: int) -> Capture:
    return Capture(step, {"loss": {"value": 1.0}})


def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {part for part in before["parts"] if before["parts"][part] != after["parts"][part]}


def test_a_glance_tells_which_part_has_changed(tmp_path: Path) -> None:
    writer = RunWriter(str(tmp_path / "run"))
    writer.write(capture(0))
    writer.flush()
    glance = ChangeStamp(writer.path)
    before = glance.look()
    assert glance.look() == before
    writer.write(capture(1))
    writer.flush()
    after = glance.look()
    assert changed(before, after) == {"series"}
    writer.write_worker("rank0-1", step=1)
    later = glance.look()
    assert changed(after, later) == {"workers"}
    (Path(writer.path) / "rules" / "loss_spike").mkdir()
    append_line(str(Path(writer.path) / "rules" / "loss_spike" / "findings.jsonl"), {"id": 1})
    first = glance.look()
    assert changed(later, first) == {"rules"}
    append_line(str(Path(writer.path) / "rules" / "loss_spike" / "findings.jsonl"), {"id": 2})
    assert changed(first, glance.look()) == {"rules"}
    writer.end()
    assert glance.look()["status"] == "Completed"


def test_a_glance_at_what_was_removed_is_no_error(tmp_path: Path) -> None:
    assert ChangeStamp(str(tmp_path / "gone")).look()["status"] == "Starting"
    assert RootChangeStamp(str(tmp_path / "gone")).look()["status"] == ""


def test_a_root_tells_of_runs_that_come_go_on_and_go(tmp_path: Path) -> None:
    glance = RootChangeStamp(str(tmp_path))
    seen = [glance.look()]
    writer = RunWriter(str(tmp_path / "first"))
    seen.append(glance.look())
    writer.write_worker("rank0-1", step=5)
    seen.append(glance.look())
    writer.end()
    seen.append(glance.look())
    (tmp_path / "first" / "manifest.json").unlink()
    (tmp_path / "first").rename(tmp_path.parent / f"{tmp_path.name}-gone")
    seen.append(glance.look())
    assert all(earlier != later for earlier, later in itertools.pairwise(seen))
    assert glance.look() == seen[-1]


def test_twenty_viewers_share_one_look(monkeypatch: Any) -> None:
    monkeypatch.setattr(live_events, "EVERY_SECONDS", 0.01)
    made: list[Counter] = []

    def make(path: str) -> Counter:
        made.append(Counter(path))
        return made[-1]

    async def view(watchers: Watchers, count: int) -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = []
        async for state in watchers.states("run", make):
            if state is not None:
                seen.append(state)
                if len(seen) == count:
                    return seen
        return seen

    async def play() -> None:
        watchers = Watchers()
        viewers = [asyncio.create_task(view(watchers, 2)) for _ in range(20)]
        while not made or made[0].looks < 3:
            await asyncio.sleep(0.01)
        assert not any(each.done() for each in viewers), "nothing has changed: nobody is told"
        made[0].state = {"status": "InProgress", "parts": {"series": 2}}
        seen = await asyncio.gather(*viewers)
        assert all(each == seen[0] and each[1]["parts"] == {"series": 2} for each in seen)
        assert len([each for each in made if each.looks]) == 1
        looks = made[0].looks
        await asyncio.sleep(0.1)
        assert made[0].looks <= looks + 1, "nobody looks any more where nobody is"

    asyncio.run(asyncio.wait_for(play(), 60))


def test_closing_ends_every_stream() -> None:
    async def play() -> None:
        watchers, seen = Watchers(), []

        async def view() -> None:
            async for state in watchers.states("run", Counter):
                seen.append(json.dumps(state))

        viewers = [asyncio.create_task(view()) for _ in range(3)]
        while len(seen) < 3:
            await asyncio.sleep(0.01)
        watchers.close()
        await asyncio.gather(*viewers)

    asyncio.run(asyncio.wait_for(play(), 60))
