"""``leadline trust``: take what a configuration file executes and sends."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from leadline.cli.console import console
from leadline.config.restriction import trust_file
from leadline.config.toml_file import FILE_NAME
from leadline.errors import ConfigurationError


def trust(
    file: Annotated[
        str, typer.Argument(help="Configuration file; default: ./leadline.toml.", show_default=False)
    ] = FILE_NAME,
) -> None:
    """Trust a leadline.toml, with its actions and rules.

    Read it first: it may come with a cloned folder. It is trusted until it changes. Without this, a file that no option
    names runs no command, sends nothing, and imports only files of its folder.
    """
    try:
        taken = trust_file(file)
    except OSError as error:
        raise ConfigurationError(
            f"it cannot be remembered that {file} is trusted: {error.strerror}; set LEADLINE_STATE to a folder, "
            f"or name the file at each start: leadline run --config {file}"
        ) from None
    name = os.path.relpath(file)
    if not taken:
        console().print(f"{name} does nothing that needs trust", markup=False, soft_wrap=True)
        return
    console().print(f"{name} is trusted until it changes:", markup=False, soft_wrap=True)
    for line in taken:
        console().print(f"  {line}", markup=False, soft_wrap=True)
