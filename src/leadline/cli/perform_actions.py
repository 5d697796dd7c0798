"""``leadline test-actions``: perform actions once, with a test message."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.text import Text

from leadline.actions import registry
from leadline.cli.table import print_lines
from leadline.config.options import ActionEntry, parse_action
from leadline.config.parameters import parameter_types
from leadline.config.run_config import RunConfig
from leadline.errors import ConfigurationError, LeadlineError
from leadline.judge.action_dispatcher import display_name
from leadline.judge.action_resolution import check_action, check_triggers, distinct_actions, resolve_action
from leadline.judge.action_worker import ActionWorker
from leadline.judge.rule_plan import named
from leadline.judge.worker_messages import ActionAnswer, ActionSetup
from leadline.launch.resolve import base_of
from leadline.records.manifest import ActionSpec
from leadline.records.names import EVERY_RULE
from leadline.records.notification import Notification
from leadline.rules.registry import AMAZON, rule_names

_MESSAGE = "This is a test message that was sent by hand: no rule has fired."


def perform_actions(
    actions: Annotated[
        list[str] | None,
        typer.Argument(
            help="ACTION[:TARGET][,key=value,…], or RULE=ACTION… as after --on; default: those of leadline.toml.",
            metavar="ACTION",
        ),
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="Configuration file; default: leadline.toml in the current folder.")
    ] = None,
) -> int:
    """Send a test message through actions, and show the answers.

    Performs each action once, without retries:

    \b
        leadline test-actions 'notify:$MAIL'

    Actions that change a running job are only checked. Exits with status 1 if an action failed.
    """
    base = base_of(RunConfig(config=config))
    if base.left_out and not actions:
        raise ConfigurationError(
            f"{base.source} is not trusted, so its actions are not performed; read it, then: leadline trust"
        )
    entries = [_entry(text) for text in actions] if actions else list(base.on)
    if not entries:
        raise ConfigurationError(
            "there is no action to test: name one, as in leadline test-actions 'notify:$MAIL', or add it to [on] of "
            "leadline.toml"
        )
    resolved = [resolve_action(entry, base.targets)[1] for entry in entries]
    check_triggers(resolved, {*rule_names(), *AMAZON, *(named(spec).alias for spec in base.rules)})
    specs = distinct_actions(resolved)
    results = [_perform(spec) for spec in specs]
    for spec, (text, has_failed) in zip(specs, results, strict=True):
        print_lines(Text.assemble(display_name(spec), ": ", (text, "red" if has_failed else "")))
    return int(any(has_failed for _, has_failed in results))


def _entry(text: str) -> ActionEntry:
    """Parse an action with or without the rule that triggers it."""
    head, equals, _ = text.partition("=")
    has_rule = bool(equals) and ":" not in head
    return parse_action(text if has_rule else f"{EVERY_RULE}={text}", os.getcwd())


def _perform(spec: ActionSpec) -> tuple[str, bool]:
    """Perform an action, and return what it did or why it failed, and whether it failed."""
    kind = registry.find_action(spec.action, spec.folder)
    if "probe" in parameter_types(kind):  # the message itself shows whether the target answers
        spec = replace(spec, parameters={**spec.parameters, "probe": False})
    try:
        check_action(spec)
    except LeadlineError as error:
        return f"failed: {error}", True
    if kind.place != "judge":
        return "checked, but not performed: it needs a running job", False
    with tempfile.TemporaryDirectory() as folder:
        answers = _answers(spec, folder)
    why = next((str(answer["error"]) for answer in answers if "error" in answer), "")
    return (f"failed: {why}", True) if why else (str(answers[-1]["outcome"]), False)


def _answers(spec: ActionSpec, folder: str) -> Sequence[ActionAnswer]:
    """Return the answers of a worker that performs an action inside this process, up to the first error.

    Args:
        folder: Stands for the run directory.
    """
    setup: ActionSetup = {"run": folder, "action": spec.action, "parameters": spec.parameters, "folder": spec.folder}
    worker = ActionWorker(setup, is_inline=True)
    if "error" in worker.setup_result:
        return [worker.setup_result]
    worker.prepare({"notice": asdict(_notification()), "workers": [], "now_ns": time.time_ns()})
    outcome = worker.deliver()
    closed = worker.close()
    return [closed, outcome] if "error" not in outcome else [outcome]


def _notification() -> Notification:
    """Return a notification that no program mistakes for a finding."""
    now_ns = time.time_ns()
    return Notification(
        f"test/{now_ns}", "job_status", "leadline test-actions", "", "Test", now_ns, job_status="Test", message=_MESSAGE
    )
