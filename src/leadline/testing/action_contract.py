"""What every action promises, as tests to inherit from."""

from __future__ import annotations

import inspect
import os
import pickle
import re
import socket
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from leadline.actions.action import EVERY_STATUS, Action, ActionContext
from leadline.actions.registry import make_action
from leadline.config.parameters import describe, parameter_types, read_parameters
from leadline.config.secrets import resolve
from leadline.errors import ConfigurationError, MissingExtraError, UnknownNameError
from leadline.judge.action_worker import ActionWorker
from leadline.records.names import JOB_STATUSES, RULE_STATUSES
from leadline.records.notification import Notification, RuleState, TensorSnapshot
from leadline.testing.runs import START_NS, RunWriter

PATIENCE_SECONDS = 60.0
SECRET = "s3cret-Key_0123456789"
FINDING = Notification(
    "stall_mail/opened/7",
    "finding",
    "a-run",
    "/runs/a-run",
    "IssuesFound",
    START_NS,
    rule="stall_mail",
    kind_of_rule="stalled_training",
    previous="InProgress",
    verdict="fired",
    step=7,
    worker="rank0-1",
    message="no step for 61 s",
    suggestion="look at the data loader; usually it waits",
    evidence={"seconds": 61.0},
    tensors=(TensorSnapshot("loss", (), "float32", {"value": float("nan")}, (float("nan"),)),),
    tensor_count=1,
    rules=(RuleState("stall_mail", "stalled_training", "IssuesFound", "fired", is_open=True),),
)


class ActionContract:
    """The promises of an action; inherit, and say how it is asked for.

    Attributes:
        name: As ``--on`` has it.
        parameters: With which it is made here, secrets as ``$SECRET``; what they name is not there: nobody answers.
    """

    name: ClassVar[str]
    parameters: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _secret(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SECRET", SECRET)

    def make(self, **changes: Any) -> Action:
        return make_action(self.name, {**self.parameters, **changes})

    def resolved(self) -> Action:
        given, _ = resolve(self.parameters, os.environ, self.make().verbatim)
        return make_action(self.name, given)

    def courier(self, folder: Path, **changes: Any) -> ActionWorker:
        path = RunWriter(folder / "run").path
        return ActionWorker(
            {"run": path, "action": self.name, "parameters": {**self.parameters, **changes}, "folder": ""}
        )

    def deliver(self, courier: ActionWorker) -> dict[str, Any]:
        courier.prepare({"notice": FINDING.to_dict(), "workers": [], "now_ns": START_NS})
        answer = courier.deliver()
        courier.close()
        return answer

    def test_refuses_parameters_that_do_not_exist(self) -> None:
        with pytest.raises(UnknownNameError, match="no parameter of"):
            self.make(no_such_parameter=1)

    def test_refuses_values_that_are_none(self) -> None:
        for name, kind in parameter_types(type(self.make())).items():
            with pytest.raises(ConfigurationError, match=re.escape(f"{name} must be {describe(kind)}")):
                read_parameters(type(self.make()), {name: object()})

    def test_is_a_value_that_another_process_can_make_again(self) -> None:
        action = self.make()
        assert pickle.loads(pickle.dumps(action)) == action
        assert make_action(self.name, msgspec.structs.asdict(action)) == action
        for name in parameter_types(type(action)):
            with pytest.raises(AttributeError):
                setattr(action, name, None)

    def test_says_where_it_runs_and_what_it_follows(self) -> None:
        action = self.make()
        fields = parameter_types(type(action))
        assert action.place in ("worker", "agent", "judge")
        assert set(action.statuses) <= {EVERY_STATUS, *RULE_STATUSES, *JOB_STATUSES}
        assert action.target is None or action.target in fields
        assert set(action.verbatim) <= set(fields)

    def test_says_all_about_its_parameters(self) -> None:
        kind = type(self.make())
        own = {name for name in parameter_types(kind) if name not in parameter_types(Action)}
        documented = re.findall(r"^ {4}(\w+): ", (inspect.getdoc(kind) or "").partition("\nArgs:\n")[2], re.MULTILINE)
        assert own <= set(documented) <= set(parameter_types(kind))

    def test_describes_what_it_would_do_in_one_line_without_a_secret(self) -> None:
        said = self.make().describe(ActionContext("/runs/a-run", FINDING, (), START_NS))
        assert said.startswith("would ")
        assert "\n" not in said
        assert SECRET not in said

    def test_a_dry_run_does_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("a dry run does something")

        courier = self.courier(tmp_path, dry_run=True)
        before = sorted(tmp_path.rglob("*"))
        for owner, name in ((socket.socket, "connect"), (socket.socket, "bind"), (subprocess, "Popen")):
            monkeypatch.setattr(owner, name, refuse)
        answer = self.deliver(courier)
        assert answer.get("outcome", answer).startswith("dry run: would ")
        assert sorted(tmp_path.rglob("*")) == before

    def test_what_it_says_has_no_secret(self, tmp_path: Path) -> None:
        """Nobody answers, or the run is there: whatever comes of it, the secret is in none of it."""
        courier = self.courier(tmp_path)
        said = [courier.said, _in_time(lambda: self.deliver(courier))]
        assert SECRET not in repr(said)
        assert all("\n" not in str(each) for answer in said for each in answer.values())
        written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        assert not any(SECRET.encode() in each for each in written)

    def test_a_check_does_not_hang_where_nobody_answers(self) -> None:
        def check() -> str:
            try:
                self.resolved().check()
            except (ConfigurationError, MissingExtraError) as error:
                return str(error)
            return ""

        assert "\n" not in _in_time(check)


def _in_time(deed: Any) -> Any:
    """What comes of something that must not hang."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(deed()), daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert results, f"it took more than {PATIENCE_SECONDS:g} s, or raised what it must not"
    return results[0]
