"""The arguments and options of ``leadline run``."""

from __future__ import annotations

from typing import Annotated

import typer

from leadline.cli.arguments import complete_collection, complete_preset, complete_rule, complete_run

CommandArgument = Annotated[
    list[str] | None,
    typer.Argument(help="Command or .py file to run; everything after it belongs to the command."),
]
NameOption = Annotated[str | None, typer.Option(help="Name of the run; default: script or module, and time.")]
OutOption = Annotated[
    str | None,
    typer.Option(help="Runs directory or URI of an object store; default: $LEADLINE_ROOT or ./leadline-runs."),
]
SpoolMaxOption = Annotated[
    str | None,
    typer.Option(help="Bound of the local copy of a run in an object store, by raw tensors; default: 2GB."),
]
MaxDiskOption = Annotated[
    str | None,
    typer.Option(help="Bound of the run directory, such as 20GB: beyond it, the oldest raw tensors are removed."),
]
ReportOption = Annotated[
    bool | None,
    typer.Option("--report/--no-report", help="Write a report into the run at its end; default: if it took a minute."),
]
ConfigOption = Annotated[
    str | None,
    typer.Option(
        help="Configuration file, a run whose configuration to reuse, or - for JSON on standard input; "
        "default: ./leadline.toml."
    ),
]
PresetOption = Annotated[
    str | None,
    typer.Option(
        help="light, standard, full, sagemaker, or a preset of leadline.toml.", autocompletion=complete_preset
    ),
]
BudgetOption = Annotated[
    str | None,
    typer.Option(help="Maximum overhead as a share of the step time, or off; default 2%, light 1%."),
]
CaptureOption = Annotated[
    list[str] | None,
    typer.Option(help="COLLECTION[:key=value,…], for example gradients:every=10.", autocompletion=complete_collection),
]
RuleOption = Annotated[
    list[str] | None,
    typer.Option(help="[ALIAS=]NAME[:key=value,…]; NAME may be file.py:Class.", autocompletion=complete_rule),
]
NoRuleOption = Annotated[list[str] | None, typer.Option(help="Disable a rule.", autocompletion=complete_rule)]
NoDefaultRulesOption = Annotated[bool, typer.Option("--no-default-rules", help="Disable the default rules.")]
CheckOption = Annotated[
    bool,
    typer.Option("--check", help="Test a copy of the training after its first steps, and again at steps 101 and 501."),
]
OnOption = Annotated[
    list[str] | None, typer.Option(help="RULE[@status]=ACTION[:TARGET][,key=value,…], for example *=stop_training.")
]
ProfileOption = Annotated[
    list[str] | None,
    typer.Option(help="KIND[:at=STEP|TIME|start|end,for=N|SECONDS]: detailed, cprofile, pyinstrument, dataloader."),
]
IntervalMsOption = Annotated[
    int | None, typer.Option(help="Sampling interval of system metrics: 100, 200, 500, 1000, 5000 or 60000.")
]
JoinOption = Annotated[
    str | None,
    typer.Option(
        help="Run that the agents of several nodes share, by name, path or URI; default: found from the launcher.",
        autocompletion=complete_run,
    ),
]
NoJoinOption = Annotated[bool, typer.Option("--no-join", help="A run of its own on each node.")]
ResumeOption = Annotated[
    str | None,
    typer.Option(help="Continue a run that has ended; its configuration remains.", autocompletion=complete_run),
]
ResumeStepOption = Annotated[
    int | None,
    typer.Option(help="The step at which it continues; default: the step count of the loaded optimizer."),
]
ResumeStoppedOption = Annotated[
    bool, typer.Option("--resume-stopped", help="Continue it even if a rule has stopped it.")
]
TrustRunOption = Annotated[
    bool,
    typer.Option(
        "--trust-run", help="With --resume or --config RUN: take custom rules and actions of a run from elsewhere."
    ),
]
SmdebugOption = Annotated[
    bool, typer.Option("--smdebug", help="Let the script import leadline.compat.smdebug as smdebug.")
]
