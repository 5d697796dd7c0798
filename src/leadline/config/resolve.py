"""Resolution of a configuration to the manifest of its run, and creation of the run."""

from __future__ import annotations

import os
import platform
import re
import secrets
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from importlib import metadata
from typing import Final

from leadline.config import trust
from leadline.config.joint_resume import resume_joint
from leadline.config.presets import merge, preset_items
from leadline.config.profile_windows import parse_windows
from leadline.config.restriction import folder_config, restrict
from leadline.config.run_config import (
    DEFAULTS,
    RunConfig,
    check_interval,
    check_preset,
    default_budget,
    parse_budget,
    parse_size,
    runs_root,
    spool_root,
)
from leadline.config.secrets import scrub_command
from leadline.config.store_uri import is_uri, parse_place
from leadline.config.toml_file import from_table, from_toml
from leadline.errors import ConfigurationError, RunExistsError, RunNotWritableError, UnknownNameError
from leadline.judge.action_resolution import check_triggers, distinct, resolve_action, try_actions
from leadline.judge.rule_plan import check_runs, default_rules, named, plan, resolve_rules
from leadline.process.interpreter import own_command, own_environment
from leadline.reader import liveness
from leadline.reader.find_runs import find_run, read_manifest
from leadline.records.describe import sender
from leadline.records.formatting import printable
from leadline.records.manifest import ActionSpec, Manifest, RuleSpec
from leadline.records.names import JOB_ENDED
from leadline.records.version import __version__
from leadline.remote.claim import RunInterruptedError, RunResumedError, create_uploaded_run, enter_uploaded_run
from leadline.rules import registry
from leadline.store import layout
from leadline.store.disk_bound import DiskBound, write_disk_bound
from leadline.store.incarnations import begin_incarnation, continue_samples
from leadline.store.presence import acquire_lock, release_lock
from leadline.store.run_state import create_run, join_run
from leadline.store.upload_state import DEFAULT_MAX_BYTES, read_upload

_RESUMED: Final = ("Interrupted", "Failed")
"""A run that has ended in one of these ways continues when a process joins it."""
_LOCK_POLL_SECONDS: Final = 0.05


def prepare(config: RunConfig, command: Sequence[str], *, is_attached: bool = False) -> str:
    """Check a configuration and create the run directory.

    Args:
        is_attached: Whether the command runs already, and writes to a local folder.
    Returns:
        The absolute path of the run.
    Raises:
        LeadlineError: The configuration is invalid; nothing was created.
    """
    base = base_of(config)
    _report_left_out(base, config.config)
    root = runs_root(config.out or base.out, can_be_remote=not is_attached)
    is_remote = is_uri(root)
    spool_bytes = parse_size(config.spool_max, "--spool-max") if config.spool_max else DEFAULT_MAX_BYTES
    if config.spool_max is not None and not is_remote:
        raise ConfigurationError(
            "--spool-max bounds the local copy of a run in an object store; give --out s3://…, too"
        )
    max_disk = config.max_disk or base.max_disk
    max_bytes = parse_size(max_disk, "--max-disk") if max_disk else None
    if config.max_disk is not None and is_remote:
        raise ConfigurationError(
            "--max-disk bounds a run on the local disk; for one in an object store, --spool-max bounds the local copy"
        )
    spool = spool_root() if is_remote else os.path.abspath(os.path.expanduser(root))
    path = config.at or _new_run_path(spool, config.name, command, is_shared=is_remote)
    manifest = resolve(config, path, base)
    try_actions(manifest.actions)
    manifest = replace(
        manifest, command=scrub_command(command), started_ns=time.time_ns(), folder=os.getcwd(), versions=_versions()
    )
    if is_remote or max_bytes is not None:  # what was removed does not count against the free space at the start
        manifest = replace(manifest, plan=replace(manifest.plan, disk_bytes=None))
    is_shared, has_created = config.at is not None, True
    if is_remote and is_shared:
        try:
            path = enter_uploaded_run(path, root, manifest, max_bytes=spool_bytes)
        except (RunInterruptedError, RunResumedError):
            path = resume_joint(path, f"{root}/{os.path.basename(path)}", max_bytes=spool_bytes)
    elif is_remote:
        create_uploaded_run(path, root, manifest, max_bytes=spool_bytes)
    elif is_shared:
        has_created = join_run(path, manifest)
    else:
        create_run(path, manifest)
    _remember(manifest)
    if has_created and max_bytes is not None and not is_remote:
        write_disk_bound(path, DiskBound(max_bytes))
    if not has_created:
        _continue_if_ended(path)
    return path


def _report_left_out(base: RunConfig, given: str | None) -> None:
    """Say in one line what a configuration does not do that nobody has trusted; the training starts all the same."""
    if base.left_out:
        advice = "read it, then: leadline trust" if given is None else "if you trust that run: --trust-run"
        sys.stderr.write(
            f"leadline: {printable(base.source)}: left out, as it is not trusted: "
            f"{printable(', '.join(base.left_out))}; {advice}\n"
        )


def _remember(manifest: Manifest) -> None:
    """Remember what the person has configured here, for the agent, and for resumptions on this machine."""
    trust.remember_own(trust.digest_of_run(manifest.to_dict()), f"the run {manifest.uri}")
    if manifest.settings and (manifest.actions or any(trust.is_foreign(spec.rule) for spec in manifest.rules)):
        with suppress(OSError):  # as above
            trust.remember(trust.digest_of_settings(manifest.settings), f"the configuration of {manifest.uri}")


def _continue_if_ended(run: str) -> None:
    """Prepare a run that this process joins: one that was interrupted is resumed."""
    read_manifest(run)  # one that this version cannot write is refused
    status = liveness.status_to_join(run)
    if status in _RESUMED:
        resume_run(run, is_joint=True)
    elif status in JOB_ENDED:
        from leadline.reader.resumption import next_samples

        continue_samples(run, next_samples(run))


def resume_run(run: str, *, step: int | None = None, is_stop_ignored: bool = False, is_joint: bool = False) -> None:
    """Begin the next incarnation of a run that has ended.

    Args:
        run: The run directory.
        step: The train step at which it continues; None: it follows from the checkpoint that the script loads.
        is_stop_ignored: Whether a run that a rule has stopped is resumed, too.
        is_joint: Whether other processes may do the same; one of them does it.
    Raises:
        RunExistsError: The run has not ended, or a rule has stopped it.
        ConfigurationError: The folder is not a run directory that can be resumed.
        RunNotWritableError: The run cannot be written.
        LeadlineError: It is no readable run.
    """
    name, path = read_manifest(run).name, os.path.join(run, layout.RESUME_LOCK)
    copies = {layout.MIRROR: "a mirror of a run in an object store", layout.TRIAL: "the import of a trial"}
    for file, what in copies.items():
        if os.path.exists(os.path.join(run, file)):
            raise ConfigurationError(f"{run} cannot be resumed: it is {what}, not a run directory")
    if (upload := read_upload(run)).is_joint:
        raise ConfigurationError(
            f"{name} is not resumed by its folder, as its nodes share only a store; give each node: "
            f"leadline run --join {upload.uri}"
        )
    try:
        while (lock := acquire_lock(path)) is None and is_joint:
            time.sleep(_LOCK_POLL_SECONDS)
    except OSError as error:
        raise RunNotWritableError(f"the run cannot be written at {run}: {error.strerror}") from None
    if lock is None:
        raise RunExistsError(f"{name} cannot be resumed: another process resumes it at this moment")
    try:
        _begin_incarnation(run, name, step, is_stop_ignored=is_stop_ignored, is_joint=is_joint)
    finally:
        release_lock(lock, path)


def check_resume_step(step: int | None) -> None:
    """Raise an error if a run cannot be resumed at a step.

    Raises:
        ConfigurationError: It is negative.
    """
    if step is not None and step < 0:
        raise ConfigurationError(f"--resume-step {step}: steps are counted from 0")


def _begin_incarnation(run: str, name: str, step: int | None, *, is_stop_ignored: bool, is_joint: bool) -> None:
    status = liveness.effective_document(run)
    if status.status not in JOB_ENDED:
        if is_joint:
            return  # another process has resumed it
        raise RunExistsError(
            f"{name} cannot be resumed: it is {status.status}; wait for its end, or stop it with: leadline stop {name}"
        )
    rule = sender(status.stopped_by)
    if status.status == "Stopped" and rule != status.stopped_by and not is_stop_ignored:
        raise RunExistsError(
            f"{name} is not resumed: {rule} has stopped it (leadline show {name}); "
            "to resume it all the same: --resume-stopped"
        )
    from leadline.reader.resumption import next_incarnation  # reads tables, which nothing else here does

    begin_incarnation(run, *next_incarnation(run, step))


def base_of(config: RunConfig) -> RunConfig:
    """Return what a configuration is based on: a file, the configuration of another run, or ``leadline.toml``.

    Raises:
        LeadlineError: It cannot be read, or is invalid.
    """
    given = config.config
    if given is None:
        return folder_config(os.getcwd())
    if given.endswith(".toml") or (os.path.exists(given) and not os.path.isdir(given)):
        return from_toml(given, os.getcwd())
    manifest = read_manifest(find_run(given, runs_root(config.out, can_be_remote=True)))
    if manifest.settings is None:
        raise ConfigurationError(
            f"--config {given}: that run was recorded by Leadline {manifest.leadline}, which did not store "
            "configurations; give a file, or a newer run"
        )
    base = from_table(manifest.settings, f"the configuration of {manifest.name}", manifest.folder)
    is_trusted = config.trusts_run or trust.is_trusted(trust.digest_of_settings(manifest.settings))
    return base if is_trusted else restrict(base)


def resolve(config: RunConfig, path: str, base: RunConfig | None = None) -> Manifest:
    """Return the manifest of a configuration, without what belongs to one execution: command, time and versions.

    Args:
        path: The run directory, which need not exist.
        base: What the configuration is based on; see ``base_of``.
    Raises:
        LeadlineError: A setting is invalid.
    """
    base = base or RunConfig()
    preset = config.preset or base.preset or "standard"
    check_preset(preset, "--preset", base.presets)
    merged = DEFAULTS.overridden_by(base.with_preset(preset)).overridden_by(config)
    assert merged.interval_ms is not None
    check_interval(merged.interval_ms, "--interval-ms")
    resolved = [resolve_action(entry, merged.targets) for entry in merged.on]
    actions = distinct(action for _, action in resolved)
    rules = resolve_rules(_without_excluded(_rules(merged, actions), config, base), merged.source)
    aliases = [spec.alias for spec, _ in rules]
    actions = tuple(_with_canonical_rule(action, aliases) for action in actions)
    check_triggers(actions, aliases)
    root = os.path.dirname(path)
    check_runs(rules, root)
    budget = parse_budget(merged.budget or default_budget(merged.base), "--budget")
    recorded = replace(
        merged,
        out=_absolute_root(merged.out),
        no_rules=tuple(dict.fromkeys(merged.no_rules)),
        rules=tuple(spec for spec, _ in rules if spec.source in ("config", "option")),
        on=tuple(entry for entry, _ in resolved),
    )
    return Manifest(
        name=os.path.basename(path),
        uri=path,
        command=(),
        started_ns=0,
        leadline=__version__,
        preset=preset,
        interval_ms=merged.interval_ms,
        plan=merge(preset_items(merged.base), merged.capture, plan(rules, actions), root=root, budget=budget),
        rules=tuple(spec for spec, _ in rules),
        actions=actions,
        profile=parse_windows(merged.profile),
        settings=recorded.to_table(),
    )


def _absolute_root(out: str | None) -> str | None:
    if out is None or is_uri(place := parse_place(out)):
        return out
    return os.path.abspath(os.path.expanduser(place))


def _rules(config: RunConfig, actions: Iterable[ActionSpec]) -> dict[str, RuleSpec]:
    """Return the rules by alias: the default ones, those requested, and those that actions name."""
    rules = {spec.alias: spec for spec in default_rules(config.base)} if config.default_rules else {}
    rules |= {spec.alias: spec for spec in map(named, config.rules)}
    for action in actions:
        name = action.rule if action.rule in rules else registry.canonical(action.rule)
        if name not in rules and name in registry.rule_names():
            rules[name] = RuleSpec(name, name, source="action")
    return rules


def _without_excluded(rules: dict[str, RuleSpec], config: RunConfig, base: RunConfig) -> list[RuleSpec]:
    """Return the rules without those that the configuration or its base excludes."""
    for name in config.no_rules:
        if registry.canonical(name) not in rules:
            raise UnknownNameError("rule of this run", name, rules, hint="--no-rule")
    known = dict.fromkeys([*rules, *registry.rule_names()])
    for name in base.no_rules:
        if registry.canonical(name) not in known:
            raise UnknownNameError("rule", name, known, hint=f"{base.source}: no_rules")
    excluded = {registry.canonical(name) for name in (*config.no_rules, *base.no_rules)}
    return [spec for alias, spec in rules.items() if alias not in excluded]


def _with_canonical_rule(action: ActionSpec, aliases: Iterable[str]) -> ActionSpec:
    return action if action.rule in aliases else replace(action, rule=registry.canonical(action.rule))


def check_name(name: str, option: str) -> None:
    """Raise an error if a run cannot have a name.

    Raises:
        ConfigurationError: It contains other characters.
    """
    if not re.fullmatch(r"[\w][\w.@+-]*", name):
        raise ConfigurationError(f"{option} {name!r}: a run name may contain only letters, digits, '.', '_' and '-'")


def _new_run_path(root: str, name: str | None, command: Sequence[str], *, is_shared: bool = False) -> str:
    """Return the path of a new run; where other machines write as well, with a random part."""
    if name is not None:
        check_name(name, "--name")
        path = os.path.join(root, name)
        if os.path.exists(path):
            raise RunExistsError(f"a run already exists at {path}; choose another --name, or remove it")
        return path
    stem = next((os.path.splitext(os.path.basename(part))[0] for part in command if part.endswith(".py")), "")
    stem = re.sub(r"[^\w.-]+", "-", stem or (os.path.basename(command[0]) if command else "")).lstrip("-.")
    first = f"{stem or 'run'}-{datetime.now():%m%d-%H%M}{f'-{secrets.token_hex(2)}' if is_shared else ''}"
    candidates = (first, *(f"{first}-{count}" for count in range(2, 10_000)))
    return next(path for path in (os.path.join(root, name) for name in candidates) if not os.path.exists(path))


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "leadline": __version__, "platform": platform.platform()}
    for package in ("torch", "numpy"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def become_agent(path: str, arguments: Sequence[str]) -> None:
    """Replace this process by the agent of a run, with the same pid and terminal and few imports."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, own_command("leadline.agent", path, *arguments), own_environment())
