"""What is not captured is noticed at its first use, noted once, and left as it is."""

from __future__ import annotations

from leadline.frameworks.kit.uncaptured import Uncaptured
from leadline.instrumentation.guard import Guard


class Session:
    def __init__(self, target: str, *, config: str = "") -> None:
        self.settings = (target, config)

    def run(self, number: int) -> int:
        return number + 1


REASONS = {"sessions": "they are not captured", "runs": "neither are they"}


def test_it_is_noted_once_and_the_script_is_not_disturbed() -> None:
    notes: list[str] = []
    failures: list[str] = []
    uncaptured = Uncaptured(REASONS, notes.append)
    before = dict(vars(Session))
    uncaptured.install(Guard(failures.append), [(Session, "__init__", "sessions"), (Session, "run", "runs")])
    sessions = [Session("local", config="small") for _ in range(2)]
    assert (sessions[0].settings, notes) == (("local", "small"), ["sessions: they are not captured"])
    assert uncaptured.gaps == {"sessions": "they are not captured"}
    assert sessions[1].run(1) == 2
    uncaptured.uninstall()
    assert (dict(vars(Session)), uncaptured.gaps, failures) == (before, REASONS, [])


def test_a_refusal_is_noted_and_its_latest_reason_kept() -> None:
    notes: list[str] = []
    uncaptured = Uncaptured({}, notes.append)
    uncaptured.refuse("step", "gradients", "it has effects")
    uncaptured.refuse("step", "gradients", "it is traced again and again")
    assert notes == ["gradients of step are not captured: it has effects"]
    assert uncaptured.gaps == {"step": "gradients are not captured: it is traced again and again"}


def test_an_import_is_noticed() -> None:
    notes: list[str] = []
    uncaptured = Uncaptured({"json": "it is read by the script itself"}, notes.append)
    uncaptured.install(Guard(notes.append), [], ["json"])
    uncaptured.uninstall()
    assert notes == ["json: it is read by the script itself"]
