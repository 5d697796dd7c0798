"""Change stamps and event streams: one poller for all viewers, streams end with the server."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

from leadline.dashboard import live_events
from leadline.dashboard.live_events import ChangeNotifier, ChangeStamp, RootChangeStamp
from leadline.store.documents import append_line
from leadline.testing.runs import Capture, RunWriter


class Counter:
    """Change source that counts its reads; ``state`` is the returned stamp."""

    made = 0

    def __init__(self, _: str) -> None:
        Counter.made += 1
        self.reads = 0
        self.state: dict[str, Any] = {"status": "InProgress", "parts": {}}

    def read(self) -> dict[str, Any]:
        self.reads += 1
        return dict(self.state)


def capture(step: int) -> Capture:
    return Capture(step, {"loss": {"value": 1.0}})


def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {part for part in before["parts"] if before["parts"][part] != after["parts"][part]}


def test_a_change_stamp_shows_which_part_changed(tmp_path: Path) -> None:
    writer = RunWriter(str(tmp_path / "run"))
    writer.write(capture(0))
    writer.flush()
    glance = ChangeStamp(writer.path)
    before = glance.read()
    assert glance.read() == before
    writer.write(capture(1))
    writer.flush()
    after = glance.read()
    assert changed(before, after) == {"series"}
    writer.write_worker("rank0-1", step=1)
    later = glance.read()
    assert changed(after, later) == {"workers"}
    (Path(writer.path) / "rules" / "loss_spike").mkdir()
    append_line(str(Path(writer.path) / "rules" / "loss_spike" / "findings.jsonl"), {"id": 1})
    first = glance.read()
    assert changed(later, first) == {"rules"}
    append_line(str(Path(writer.path) / "rules" / "loss_spike" / "findings.jsonl"), {"id": 2})
    assert changed(first, glance.read()) == {"rules"}
    writer.end()
    assert glance.read()["status"] == "Completed"


def test_a_change_stamp_of_a_removed_run_is_no_error(tmp_path: Path) -> None:
    assert ChangeStamp(str(tmp_path / "gone")).read()["status"] == "Starting"
    assert RootChangeStamp(str(tmp_path / "gone")).read()["status"] == ""


def test_the_root_stamp_changes_as_runs_appear_progress_and_disappear(tmp_path: Path) -> None:
    glance = RootChangeStamp(str(tmp_path))
    seen = [glance.read()]
    writer = RunWriter(str(tmp_path / "first"))
    seen.append(glance.read())
    writer.write_worker("rank0-1", step=5)
    seen.append(glance.read())
    writer.end()
    seen.append(glance.read())
    (tmp_path / "first" / "manifest.json").unlink()
    (tmp_path / "first").rename(tmp_path.parent / f"{tmp_path.name}-gone")
    seen.append(glance.read())
    assert all(earlier != later for earlier, later in itertools.pairwise(seen))
    assert glance.read() == seen[-1]


def test_twenty_viewers_share_one_poller(monkeypatch: Any) -> None:
    monkeypatch.setattr(live_events, "POLL_SECONDS", 0.01)
    made: list[Counter] = []

    def make(path: str) -> Counter:
        made.append(Counter(path))
        return made[-1]

    async def view(notifier: ChangeNotifier, count: int) -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = []
        async for state in notifier.states("run", make):
            if state is not None:
                seen.append(state)
                if len(seen) == count:
                    return seen
        return seen

    async def play() -> None:
        notifier = ChangeNotifier()
        viewers = [asyncio.create_task(view(notifier, 2)) for _ in range(20)]
        while not made or made[0].reads < 3:
            await asyncio.sleep(0.01)
        assert not any(each.done() for each in viewers), "nothing has changed: nobody is told"
        made[0].state = {"status": "InProgress", "parts": {"series": 2}}
        seen = await asyncio.gather(*viewers)
        assert all(each == seen[0] and each[1]["parts"] == {"series": 2} for each in seen)
        assert len([each for each in made if each.reads]) == 1
        looks = made[0].reads
        await asyncio.sleep(0.1)
        assert made[0].reads <= looks + 1, "polling must stop without viewers"

    asyncio.run(asyncio.wait_for(play(), 60))


def test_closing_ends_every_stream() -> None:
    async def play() -> None:
        notifier, seen = ChangeNotifier(), []

        async def view() -> None:
            async for state in notifier.states("run", Counter):
                seen.append(json.dumps(state))

        viewers = [asyncio.create_task(view()) for _ in range(3)]
        while len(seen) < 3:
            await asyncio.sleep(0.01)
        notifier.close()
        await asyncio.gather(*viewers)

    asyncio.run(asyncio.wait_for(play(), 60))
