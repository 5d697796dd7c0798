"""``leadline run``: launch a command and monitor it."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Final, NoReturn

from leadline.cli.arguments import ModuleOption
from leadline.cli.run_options import (
    BudgetOption,
    CaptureOption,
    CheckOption,
    CommandArgument,
    ConfigOption,
    IntervalMsOption,
    JoinOption,
    MaxDiskOption,
    NameOption,
    NoDefaultRulesOption,
    NoJoinOption,
    NoRuleOption,
    OnOption,
    OutOption,
    PresetOption,
    ProfileOption,
    ReportOption,
    ResumeOption,
    ResumeStepOption,
    ResumeStoppedOption,
    RuleOption,
    SmdebugOption,
    SpoolMaxOption,
    TrustRunOption,
)
from leadline.config.launcher import job_name
from leadline.config.run_config import RunConfig, runs_root, spool_root
from leadline.config.store_uri import is_uri, parse_place
from leadline.config.trust import digest_of_run, trust_now
from leadline.errors import ConfigurationError, closest
from leadline.launch.document import read_document
from leadline.launch.join import prepare_found, prepare_joint
from leadline.launch.prepare import become_agent, prepare, prepare_resolved
from leadline.launch.restore import restore_run
from leadline.launch.resume import check_resume_step, resume_run
from leadline.launch.resume_from_store import resume_joint
from leadline.reader.find_runs import find_run, read_manifest
from leadline.records.check_result import PROBES
from leadline.records.names import SMDEBUG
from leadline.store import layout
from leadline.store.upload_state import DEFAULT_MAX_BYTES, read_upload
from leadline.training.bootstrap import SITE

if TYPE_CHECKING:
    from leadline.compat.smdebug.profiler_settings import ProfilerSettings

_STANDARD_INPUT: Final = "-"


def run(
    command: CommandArgument = None,
    is_module: ModuleOption = False,
    name: NameOption = None,
    out: OutOption = None,
    spool_max: SpoolMaxOption = None,
    max_disk: MaxDiskOption = None,
    report: ReportOption = None,
    config: ConfigOption = None,
    preset: PresetOption = None,
    budget: BudgetOption = None,
    capture: CaptureOption = None,
    rule: RuleOption = None,
    no_rule: NoRuleOption = None,
    no_default_rules: NoDefaultRulesOption = False,
    check: CheckOption = False,
    on: OnOption = None,
    profile: ProfileOption = None,
    interval_ms: IntervalMsOption = None,
    join: JoinOption = None,
    no_join: NoJoinOption = False,
    resume: ResumeOption = None,
    resume_step: ResumeStepOption = None,
    resume_stopped: ResumeStoppedOption = False,
    trust_run: TrustRunOption = False,
    smdebug: SmdebugOption = False,
) -> None:
    """Run a training command, capture its data and evaluate rules.

    Exits with the status of the command, or with 10 if a rule's action stopped it.
    """
    if not command:
        raise ConfigurationError("no command given; for example: leadline run train.py")
    launched = resolve_command(command, is_module=is_module)
    if resume is None:
        _refuse_without_run(config, is_trusted=trust_run, is_resumed=resume_step is not None or resume_stopped)
    if join is not None and (no_join or name is not None or resume is not None):
        raise ConfigurationError("--join names the run: leave out --no-join, --name and --resume")
    if smdebug:
        os.environ[SMDEBUG] = "1"
    if os.environ.get("LEADLINE_DISABLED", "") not in ("", "0"):
        _become_command(launched, config, with_smdebug=smdebug)
    is_configured = resume is not None or config == _STANDARD_INPUT
    configured = _profiler_settings() if smdebug and not is_configured else None
    options = RunConfig.from_options(
        name=name,
        out=out,
        spool_max=spool_max,
        max_disk=max_disk,
        report=report,
        config=config,
        preset=preset,
        capture=capture or (),
        rules=(*(rule or ()), *(PROBES if check else ())),
        no_rules=no_rule or (),
        default_rules=False if no_default_rules else None,
        on=on or (),
        profile=profile or (configured.windows() if configured else ()),
        interval_ms=interval_ms or (configured.interval_ms if configured else None),
        trusts_run=trust_run and resume is None,
        budget=budget,
    )
    if resume is not None:
        is_of_nodes = not no_join and job_name(os.environ, launched, os.uname().nodename) is not None
        run = _resumed(resume, options, resume_step, is_stop_ignored=resume_stopped, is_of_nodes=is_of_nodes)
        if trust_run:
            trust_now(digest_of_run(read_manifest(run).to_dict()))
        become_agent(run, ["--", *launched])
    run = _prepared(options, launched, join, is_alone=no_join)
    if smdebug:
        _name_as_hooks_do(run)
    become_agent(run, ["--", *launched])


def _refuse_without_run(config: str | None, *, is_trusted: bool, is_resumed: bool) -> None:
    """Refuse the options that need a run where none is resumed."""
    if is_trusted and (config in (None, _STANDARD_INPUT) or config.endswith(".toml")):
        raise ConfigurationError("--trust-run needs a run: --resume RUN, or --config RUN")
    if is_resumed:
        raise ConfigurationError("--resume-step and --resume-stopped need a run: --resume RUN")


def _become_command(command: list[str], config: str | None, *, with_smdebug: bool) -> NoReturn:
    """Replace this process by the command, without Leadline; the command does not read our configuration."""
    if config == _STANDARD_INPUT:
        sys.stdin.buffer.read()
    if with_smdebug:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (SITE, os.environ.get("PYTHONPATH"))))
    os.execvp(command[0], command)


def _prepared(options: RunConfig, command: list[str], join: str | None, *, is_alone: bool) -> str:
    """Create the run, or join that of the other nodes; return its directory.

    Raises:
        LeadlineError: The configuration is invalid.
    """
    if options.config == _STANDARD_INPUT:
        document = read_document(sys.stdin.buffer.read(), "--config -")
        options = replace(options, config=None)
        if document.manifest is not None:
            if join is not None or options != RunConfig.from_options():
                raise ConfigurationError("--config - has a manifest, which is complete; leave out the other options")
            return prepare_resolved(document.manifest, command, is_shared=document.is_shared)
        assert document.config is not None
        options = document.config.overridden_by(options)
    if join is not None:
        return prepare_joint(options, command, join)
    if options.at is not None:
        return prepare(options, command)
    found = None if is_alone else job_name(os.environ, command, os.uname().nodename)
    if found is None:
        return prepare(options, command)
    return prepare_joint(options, command, options.name) if options.name else prepare_found(options, command, found)


def _resumed(place: str, options: RunConfig, step: int | None, *, is_stop_ignored: bool, is_of_nodes: bool) -> str:
    """Begin the next incarnation of a run; return its directory.

    Args:
        is_of_nodes: Whether other nodes of the job do the same.
    Raises:
        LeadlineError: It cannot be resumed.
    """
    check_resume_step(step)
    if replace(options, out=None) != RunConfig.from_options():
        raise ConfigurationError("--resume continues a run as it was configured; leave out the other options")
    if is_uri(parsed := parse_place(place)):
        path = os.path.join(spool_root(), os.path.basename(parsed))
        if is_of_nodes and not layout.is_run(path):
            return resume_joint(path, parsed, max_bytes=DEFAULT_MAX_BYTES, step=step, is_stop_ignored=is_stop_ignored)
        run = restore_run(parsed, spool_root())
    else:
        root = runs_root(options.out, can_be_remote=True)
        run = find_run(place, spool_root() if is_uri(root) else root)
    upload = read_upload(run)
    if upload.is_joint:
        path = os.path.join(os.path.dirname(run), os.path.basename(upload.uri))
        return resume_joint(
            path, upload.uri, max_bytes=upload.max_bytes, step=step, is_stop_ignored=is_stop_ignored, node=upload.node
        )
    resume_run(run, step=step, is_stop_ignored=is_stop_ignored)
    return run


def resolve_command(command: list[str], *, is_module: bool = False) -> list[str]:
    """The command line to launch: a script or module is run by this Python.

    Raises:
        ConfigurationError: There is no such script, package or program.
    """
    first = command[0]
    if is_module:
        package = first.partition(".")[0]  # which is not imported to find a module in it
        if PathFinder.find_spec(package, [os.getcwd(), *sys.path]) is None:
            raise ConfigurationError(f"no module named {package!r} in this folder or in {sys.executable}")
        return [sys.executable, "-m", *command]
    if first.endswith(".py"):
        if not os.path.isfile(first):
            raise ConfigurationError(f"no such script: {first!r}{_nearest_script(first)}")
        return [sys.executable, *command]
    if shutil.which(first) is None:
        problem = f"{first!r} is not executable" if os.path.exists(first) else f"command not found: {first!r}"
        hint = f"; for the Python script: leadline run {first}.py" if os.path.isfile(first + ".py") else ""
        raise ConfigurationError(f"{problem}{hint}")
    return command


def _nearest_script(path: str) -> str:
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        return f"; there is no folder {folder!r}"
    nearest = closest(os.path.basename(path), [name for name in os.listdir(folder) if name.endswith(".py")])
    return f"; did you mean {os.path.join(os.path.dirname(path), nearest)!r}?" if nearest else ""


# smdebug's interface is imported only where it is needed: a launch without it starts faster.


def _profiler_settings() -> ProfilerSettings:
    from leadline.compat.smdebug.profiler_settings import read_profiler_settings

    return read_profiler_settings()


def _name_as_hooks_do(run: str) -> None:
    from leadline.compat.smdebug.trial_naming import name_as_hooks_do

    name_as_hooks_do(run)
