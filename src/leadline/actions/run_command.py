"""The action run_command."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from leadline.actions.action import Action, ActionContext, Outcome, Place
from leadline.errors import ConfigurationError
from leadline.records.request import ExecuteCommand

_MAX_CHARACTERS = 80


class RunCommand(Action, frozen=True, kw_only=True):
    """Has the agent run a shell command on its node, for example to cancel a job or to page somebody.

    The command is run by `/bin/sh` in the folder from which the training was started, in a session of its own. Its
    environment is that of `leadline run` with the additional variables LEADLINE_EVENT_ID, _KIND, _RUN, _URI, _RULE,
    _STATUS, _PREVIOUS, _VERDICT, _WHY, _JOB_STATUS, _STEP, _WORKER, _MESSAGE and _SUGGESTION, which are empty where
    they do not apply. The complete notification is on its standard input, as JSON. The command is not a part of the
    job: it is neither monitored nor stopped with it.

    `$NAME` is resolved by that shell and not before, so a secret in a variable is in no file and in no process list of
    Leadline. The first megabyte of the command's output is kept in the run, in `commands/<request>.log`: let it print
    no secrets.

    Commands run one at a time, in the order of their requests. A command fails if its exit status is not 0, or if it
    exceeds `timeout`; with `retries` it is requested again. If one is still running when the training ends, the agent
    waits until its timeout; Ctrl-C terminates it. Single quotes around the option keep your own shell from
    resolving variables: `--on '*=run_command:scancel $SLURM_JOB_ID'`.

    Args:
        command: The shell command.
        timeout: The time limit in seconds, > 0; then the session of the command gets SIGTERM, and SIGKILL 5 s later.
        retries: The maximal number of retries after a failure, >= 0.
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

    def describe(self, context: ActionContext) -> str:
        return f"would run {_short(self.command)}"

    def run(self, context: ActionContext) -> Outcome:
        from leadline.store import control

        notification = context.notification
        request = ExecuteCommand(
            id=control.new_request_id(),
            reason=notification.message,
            by=f"rule:{notification.rule}" if notification.rule else "action",
            time_ns=context.now_ns,
            command=self.command,
            timeout=self.timeout,
            notice=notification.to_dict(),
        )
        control.write_request(context.run, request)
        return Outcome(f"asked to run {_short(self.command)}", request=request.id)


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= _MAX_CHARACTERS else f"{line[: _MAX_CHARACTERS - 2]} …"
