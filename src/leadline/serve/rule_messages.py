"""The actions Email and SMS of rules: messages to the topic ``SMDebugRules``, as Debugger's rules send them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from leadline.compat.smdebug.rules.action.message_action import ATTRIBUTES, TOPIC
from leadline.serve.run_configuration import ConfiguredRule, configured_rules
from leadline.serve.topics import Message, Topics
from leadline.serve.training_job import TrainingJob

_MAX_SUBJECT: Final = 100
"""The length limit of a subject on AWS."""


def subscribe(topics: Topics, rules: Iterable[ConfiguredRule]) -> None:
    """Create the topic and the subscriptions of what the actions of rules name.

    Raises:
        OSError: They cannot be recorded.
    """
    for protocol, address in [pair for rule in rules for pair in _addresses(rule)]:
        topic = topics.create(TOPIC)
        if protocol in topics.protocols:
            topics.subscribe(topic, protocol, address, {ATTRIBUTES[protocol]: [address]})


def publish(topics: Topics, before: TrainingJob | None, job: TrainingJob) -> None:
    """Publish a message for each rule of a job that has just found something and names an address."""
    known = {rule.name: rule.status for rule in before.rules} if before is not None else {}
    found = {rule.name: rule for rule in job.rules if rule.status == "IssuesFound" != known.get(rule.name)}
    for configured in configured_rules(job.request) if found else ():
        if configured.name not in found:
            continue
        for protocol, address in _addresses(configured):
            fired = f"SMDebugRule:{configured.name} fired"
            text = f"{fired}. {found[configured.name].details}\nTraining job: {job.name}"
            topics.publish(topics.create(TOPIC), Message(text, fired[:_MAX_SUBJECT], {ATTRIBUTES[protocol]: address}))


def _addresses(rule: ConfiguredRule) -> list[tuple[str, str]]:
    """Return the protocols and addresses that the actions of a rule name."""
    named = [(action["name"].lower(), str(action.get("endpoint", ""))) for action in rule.actions]
    return [(name, address) for name, address in named if name in ATTRIBUTES and address]
