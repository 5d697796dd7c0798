"""Arguments that several commands take, and the names that a shell completes for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Annotated, Final

import typer

from leadline.records.names import COLLECTIONS, PRESETS

_MAX_COMPLETIONS: Final = 200


def command_to_complete() -> str | None:
    """The command on the line that a shell wants to have completed; None: no completion is requested, or no command."""
    if "_LEADLINE_COMPLETE" not in os.environ:
        return None
    words = (os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")).split()
    return words[1] if len(words) > 1 else None


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)][:_MAX_COMPLETIONS]


def complete_run(incomplete: str) -> list[str]:
    """The names of runs in the runs directory, the latest first."""
    from leadline.reader.find_runs import list_runs

    return _starting((run.name for run in list_runs()), incomplete)


def complete_rule(incomplete: str) -> list[str]:
    """The names of the rules."""
    from leadline.rules import registry

    return _starting((*registry.rule_names(), *(registry.AMAZON if incomplete[:1].isupper() else ())), incomplete)


def complete_tensor(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of runs and of tensors: those of the run that was given before, or of the latest."""
    import leadline
    from leadline.errors import LeadlineError

    given = ctx.params.get("names") or []
    try:
        tensors = leadline.open_run(given[0] if given else None).tensor_names()
    except LeadlineError:
        tensors = []
    return _starting(tensors, incomplete) + ([] if given else complete_run(incomplete))


def completing(names: Iterable[str]) -> Callable[[str], list[str]]:
    """A completion with fixed names."""
    return lambda incomplete: _starting(names, incomplete)


complete_collection: Final = completing(sorted(COLLECTIONS))
complete_preset: Final = completing(PRESETS)

ModuleOption = Annotated[bool, typer.Option("-m", help="The command is a module with its arguments, as of python -m.")]
RunArgument = Annotated[
    str | None,
    typer.Argument(
        help="A run's name, path or URI; default: the latest; -1 the one before.", autocompletion=complete_run
    ),
]
