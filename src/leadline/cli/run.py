"""``leadline run``: launch a command and monitor it."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from leadline.cli.arguments import ModuleOption, complete_collection, complete_preset, complete_rule, complete_run
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
    command: Annotated[
        list[str] | None,
        typer.Argument(help="Command or .py file to run; everything after it belongs to the command."),
    ] = None,
    is_module: ModuleOption = False,
    name: Annotated[str | None, typer.Option(help="Name of the run; default: script or module, and time.")] = None,
    out: Annotated[
        str | None,
        typer.Option(help="Runs directory or URI of an object store; default: $LEADLINE_ROOT or ./leadline-runs."),
    ] = None,
    spool_max: Annotated[
        str | None,
        typer.Option(help="Bound of the local copy of a run in an object store, by raw tensors; default: 2GB."),
    ] = None,
    max_disk: Annotated[
        str | None,
        typer.Option(help="Bound of the run directory, such as 20GB: beyond it, the oldest raw tensors are removed."),
    ] = None,
    report: Annotated[
        bool | None,
        typer.Option(
            "--report/--no-report", help="Write a report into the run at its end; default: if it took a minute."
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            help="Configuration file, a run whose configuration to reuse, or - for JSON on standard input; "
            "default: ./leadline.toml."
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="light, standard, full, sagemaker, or a preset of leadline.toml.", autocompletion=complete_preset
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Maximum overhead as a share of the step time, or off; default 2%, light 1%."),
    ] = None,
    capture: Annotated[
        list[str] | None,
        typer.Option(
            help="COLLECTION[:key=value,…], for example gradients:every=10.", autocompletion=complete_collection
        ),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(help="[ALIAS=]NAME[:key=value,…]; NAME may be file.py:Class.", autocompletion=complete_rule),
    ] = None,
    no_rule: Annotated[list[str] | None, typer.Option(help="Disable a rule.", autocompletion=complete_rule)] = None,
    no_default_rules: Annotated[bool, typer.Option("--no-default-rules", help="Disable the default rules.")] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Test a copy of the training after its first steps, and again at step 501."),
    ] = False,
    on: Annotated[
        list[str] | None, typer.Option(help="RULE[@status]=ACTION[:TARGET][,key=value,…], for example *=stop_training.")
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(help="KIND[:at=STEP|TIME|start|end,for=N|SECONDS]: detailed, cprofile, pyinstrument, dataloader."),
    ] = None,
    interval_ms: Annotated[
        int | None, typer.Option(help="Sampling interval of system metrics: 100, 200, 500, 1000, 5000 or 60000.")
    ] = None,
    join: Annotated[
        str | None,
        typer.Option(
            help="Run that the agents of several nodes share, by name, path or URI; default: found from the launcher.",
            autocompletion=complete_run,
        ),
    ] = None,
    no_join: Annotated[bool, typer.Option("--no-join", help="A run of its own on each node.")] = False,
    resume: Annotated[
        str | None,
        typer.Option(help="Continue a run that has ended; its configuration remains.", autocompletion=complete_run),
    ] = None,
    resume_step: Annotated[
        int | None,
        typer.Option(help="The step at which it continues; default: the step count of the loaded optimizer."),
    ] = None,
    resume_stopped: Annotated[
        bool, typer.Option("--resume-stopped", help="Continue it even if a rule has stopped it.")
    ] = False,
    trust_run: Annotated[
        bool,
        typer.Option(
            "--trust-run", help="With --resume or --config RUN: take custom rules and actions of a run from elsewhere."
        ),
    ] = False,
    smdebug: Annotated[
        bool, typer.Option("--smdebug", help="Let the script import leadline.compat.smdebug as smdebug.")
    ] = False,
) -> None:
    """Run a training command, capture its data and evaluate rules.

    Exits with the status of the command, or with 10 if a rule's action stopped it.
    """
    if not command:
        raise ConfigurationError("no command given; for example: leadline run train.py")
    launched = resolve_command(command, is_module=is_module)
    if trust_run and resume is None and (config in (None, _STANDARD_INPUT) or config.endswith(".toml")):
        raise ConfigurationError("--trust-run needs a run: --resume RUN, or --config RUN")
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
    if join is not None and (no_join or name is not None or resume is not None):
        raise ConfigurationError("--join names the run: leave out --no-join, --name and --resume")
    if resume is not None:
        is_of_nodes = not no_join and job_name(os.environ, launched, os.uname().nodename) is not None
        run = _resumed(resume, options, resume_step, is_stop_ignored=resume_stopped, is_of_nodes=is_of_nodes)
        if trust_run:
            trust_now(digest_of_run(read_manifest(run).to_dict()))
        become_agent(run, ["--", *launched])
    if resume_step is not None or resume_stopped:
        raise ConfigurationError("--resume-step and --resume-stopped need a run: --resume RUN")
    run = _prepared(options, launched, join, is_alone=no_join)
    if smdebug:
        _name_as_hooks_do(run)
    become_agent(run, ["--", *launched])


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
