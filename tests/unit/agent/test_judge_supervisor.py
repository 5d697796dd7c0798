"""How often the judge is restarted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.agent.judge_supervisor import JudgeSupervisor
from leadline.agent.run_documents import RunDocuments
from leadline.agent.terminal import Terminal
from leadline.records.documents import ManifestDocument
from leadline.store import layout
from leadline.store.documents import write_document


class Dying:
    """A gate whose children have ended at once, as judges that the kernel kills."""

    def spawn(self, *_: Any, **__: Any) -> Dying:
        return self

    code = -9
    pid = 1


def die(judging: JudgeSupervisor, now: float) -> None:
    judging.poll(now)
    judging.poll(now + 60.0)


def test_deaths_of_the_judge_are_counted_by_the_hour(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_document(str(tmp_path / layout.MANIFEST), {"name": "x"})
    manifest, documents = ManifestDocument(rules=({"alias": "r", "rule": "r"},)), RunDocuments(str(tmp_path), "n")
    gate: Any = Dying()
    judging = JudgeSupervisor(documents, manifest, ["judge"], gate, terminal=Terminal(), clock=lambda: 0.0)
    judging.start()
    for death in range(20):
        die(judging, death * 1_300.0)
        assert not judging.is_over, "three deaths an hour"
    die(judging, 19 * 1_300.0 + 100.0)
    assert judging.is_over
    assert "is not restarted" in capfd.readouterr().err
    documents.close()
