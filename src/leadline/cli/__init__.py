"""The command line: one module for each command, and the only package that prints."""

from __future__ import annotations

import os
import sys
from typing import Any


def main() -> None:
    """Run the command line; an invalid setting is reported in one line, with exit status 2."""
    import typer

    from leadline.cli.app import application
    from leadline.cli.arguments import command_to_complete
    from leadline.cli.console import complain
    from leadline.errors import LeadlineError

    name = sys.argv[1] if len(sys.argv) > 1 else command_to_complete()
    command = typer.main.get_command(application(name))
    if "pyarrow" in sys.modules:
        from leadline.reader.pandas_import import skip_pandas_import

        skip_pandas_import()
    try:
        status = command.main(prog_name="leadline", standalone_mode=False)
    except typer.Exit as request:
        sys.exit(request.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except LeadlineError as error:
        complain(str(error))
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of our output closed the pipe
        sys.exit(0)
    except _click_error() as error:
        complain(_format_error(error))
        sys.exit(2)
    sys.exit(status if isinstance(status, int) else 0)


def _click_error() -> type[Exception]:
    """The base class of the parser's errors: typer vendors click, or uses the installed one."""
    import typer

    return next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def _format_error(error: Any) -> str:
    context = getattr(error, "ctx", None)
    command = f"{context.info_name} " if context is not None and context.parent is not None else ""
    help_at = f"  (see leadline {command}--help)"
    if type(error).__name__ == "NoSuchOption":
        nearest = f"; did you mean {error.possibilities[0]}?" if error.possibilities else ""
        return f"no option named {error.option_name!r}{nearest}{help_at}"
    message = str(error.format_message()).rstrip(".")
    parameter = getattr(error, "param", None)
    names_option = "--" in message
    where = f"{parameter.opts[0]}: " if parameter is not None and parameter.opts and not names_option else ""
    return f"{where}{message[:1].lower()}{message[1:]}{'' if where else help_at}"
