"""Contract of all actions, as a test class to inherit from."""

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

from leadline.actions.action import Action, ActionContext
from leadline.actions.registry import make_action
from leadline.config.parameters import describe, parameter_types, read_parameters
from leadline.config.variables import resolve
from leadline.errors import ConfigurationError, MissingExtraError, UnknownNameError
from leadline.judge.action_worker import ActionWorker
from leadline.judge.worker_messages import ActionAnswer
from leadline.records.names import EVERY_STATUS, JOB_STATUSES, RULE_STATUSES
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
    """The contract of an action; subclasses set its name and parameters.

    Attributes:
        name: The name, as in ``--on``.
        parameters: The parameters in these tests, secrets as ``$SECRET``; the servers that they name do not exist.
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

    def action_worker(self, folder: Path, **changes: Any) -> ActionWorker:
        path = RunWriter(folder / "run").path
        return ActionWorker(
            {"run": path, "action": self.name, "parameters": {**self.parameters, **changes}, "folder": ""}
        )

    def deliver(self, worker: ActionWorker) -> ActionAnswer:
        worker.prepare({"notice": FINDING.to_dict(), "workers": [], "now_ns": START_NS})
        answer = worker.deliver()
        worker.close()
        return answer

    def test_rejects_unknown_parameters(self) -> None:
        with pytest.raises(UnknownNameError, match="no parameter of"):
            self.make(no_such_parameter=1)

    def test_rejects_values_of_the_wrong_type(self) -> None:
        for name, kind in parameter_types(type(self.make())).items():
            with pytest.raises(ConfigurationError, match=re.escape(f"{name} must be {describe(kind)}")):
                read_parameters(type(self.make()), {name: object()})

    def test_is_immutable_and_can_be_pickled(self) -> None:
        action = self.make()
        assert pickle.loads(pickle.dumps(action)) == action
        assert make_action(self.name, msgspec.structs.asdict(action)) == action
        for name in parameter_types(type(action)):
            with pytest.raises(AttributeError):
                setattr(action, name, None)

    def test_declares_where_it_runs_and_its_statuses(self) -> None:
        action = self.make()
        fields = parameter_types(type(action))
        assert action.place in ("worker", "agent", "judge")
        assert set(action.statuses) <= {EVERY_STATUS, *RULE_STATUSES, *JOB_STATUSES}
        assert action.target is None or action.target in fields
        assert set(action.verbatim) <= set(fields)

    def test_docstring_lists_all_parameters(self) -> None:
        kind = type(self.make())
        specific = {name for name in parameter_types(kind) if name not in parameter_types(Action)}
        documented = re.findall(r"^ {4}(\w+): ", (inspect.getdoc(kind) or "").partition("\nArgs:\n")[2], re.MULTILINE)
        assert specific <= set(documented) <= set(parameter_types(kind))

    def test_describes_what_it_would_do_in_one_line_without_a_secret(self) -> None:
        text = self.make().describe(ActionContext("/runs/a-run", FINDING, (), START_NS))
        assert text.startswith("would ")
        assert "\n" not in text
        assert SECRET not in text

    def test_a_dry_run_does_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("a dry run does something")

        worker = self.action_worker(tmp_path, dry_run=True)
        before = sorted(tmp_path.rglob("*"))
        for owner, name in ((socket.socket, "connect"), (socket.socket, "bind"), (subprocess, "Popen")):
            monkeypatch.setattr(owner, name, refuse)
        answer = self.deliver(worker)
        assert answer.get("outcome", str(answer)).startswith("dry run: would ")
        assert sorted(tmp_path.rglob("*")) == before

    def test_answers_contain_no_secret(self, tmp_path: Path) -> None:
        """The delivery may fail or succeed; the secret is not in any answer or file."""
        worker = self.action_worker(tmp_path)
        answers = [worker.setup_result, _in_time(lambda: self.deliver(worker))]
        assert SECRET not in repr(answers)
        assert all("\n" not in str(value) for answer in answers for value in answer.values())
        written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        assert not any(SECRET.encode() in data for data in written)

    def test_a_check_does_not_hang_without_a_server(self) -> None:
        def check() -> str:
            try:
                self.resolved().check()
            except (ConfigurationError, MissingExtraError) as error:
                return str(error)
            return ""

        assert "\n" not in _in_time(check)


def _in_time(call: Any) -> Any:
    """Return the result of a call that must not hang."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert results, f"it took more than {PATIENCE_SECONDS:g} s, or raised an unexpected error"
    return results[0]
