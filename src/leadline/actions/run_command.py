"""The action run_command."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from leadline.actions.action import Action, ActionContext, Outcome, Place
from leadline.errors import ConfigurationError
from leadline.records.request import Request

_MOST_CHARACTERS = 80


class RunCommand(Action, frozen=True, kw_only=True):
    """Has the agent run a command on the node where it runs: cancel a job, wake somebody, free what is held.

    The command is run by `/bin/sh` in the folder from which the training was started, in a session of its own. It has
    the environment of `leadline run`, and these: LEADLINE_EVENT_ID, _KIND, _RUN, _URI, _RULE, _STATUS, _PREVIOUS,
    _VERDICT, _WHY, _JOB_STATUS, _STEP, _WORKER, _MESSAGE and _SUGGESTION, empty where there is nothing to say. The
    whole notice comes as JSON on its standard input. It is no part of the job: it is neither watched nor measured
    nor ended with it.

    `$NAME` stays as it is until that shell resolves it, so a secret in a variable is in no file and in no list of
    processes of ours. What the command prints is kept in the run, `commands/<request>.log`, the first megabyte of it:
    let it print no secrets.

    Commands run one after the other, in the order in which they were asked for. One that ends with another status
    than 0, or that takes longer than `timeout`, has failed; with `retries` it is asked for again. One that still runs
    when the training ends is awaited, up to its limit; Ctrl-C ends the waiting. A `'` around the whole keeps your
    shell from resolving what is meant for that one: `--on '*=run_command:scancel $SLURM_JOB_ID'`.

    Args:
        command: What is run.
        timeout: Seconds that the command may take, > 0; then it gets SIGTERM, and SIGKILL 5 s later, and with it all
            of its session.
        retries: How often it is run again after a failure, >= 0.
    """

    place: ClassVar[Place] = "agent"
    target: ClassVar[str | None] = "command"
    verbatim: ClassVar[tuple[str, ...]] = ("command",)

    command: str
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    retries: Annotated[int, msgspec.Meta(ge=0)] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.command.strip() or "\0" in self.command:
            raise ConfigurationError("run_command: there is no command; write --on 'RULE=run_command:COMMAND'")

    def describe(self, occasion: ActionContext) -> str:
        return f"would run {_short(self.command)}"

    def run(self, occasion: ActionContext) -> Outcome:
        from leadline.store import control

        notice = occasion.notice
        request = Request(
            id=control.new_request_id(),
            kind="run_command",
            reason=notice.message,
            by=f"rule:{notice.rule}" if notice.rule else "action",
            time_ns=occasion.now_ns,
            parameters={"command": self.command, "timeout": self.timeout, "notice": notice.to_dict()},
        )
        control.write_request(occasion.run, request)
        return Outcome(f"asked to run {_short(self.command)}", request=request.id)


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 2]} …"
