"""The command line: one module a command; the only place that prints."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; a wrong setting is one clear line and status 2."""
    import click
    import typer

    from leadline.cli.app import app
    from leadline.cli.render import complain
    from leadline.errors import LeadlineError

    command = typer.main.get_command(app)
    try:
        status = command.main(prog_name="leadline", standalone_mode=False)
    except click.exceptions.Exit as wish:
        sys.exit(wish.exit_code)
    except click.ClickException as error:
        complain(_spoken(error))
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except LeadlineError as error:
        complain(str(error))
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has enough of it
        sys.exit(0)
    sys.exit(status if isinstance(status, int) else 0)


def _spoken(error: object) -> str:
    import click

    if isinstance(error, click.NoSuchOption):
        nearest = f"; did you mean {error.possibilities[0]}?" if error.possibilities else ""
        return f"no option named {error.option_name!r}{nearest}  (leadline {_command(error)}--help lists all)"
    assert isinstance(error, click.ClickException)
    message = error.format_message().rstrip(".")
    return message[0].lower() + message[1:] if message else "that is no command of leadline"


def _command(error: object) -> str:
    context = getattr(error, "ctx", None)
    return f"{context.info_name} " if context is not None and context.parent is not None else ""
