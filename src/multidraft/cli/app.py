"""The command line's frame: commands, version, and errors as one line with exit code 2."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from multidraft._version import __version__
from multidraft.cli.audit import audit
from multidraft.cli.bench import bench
from multidraft.cli.calibrate import calibrate
from multidraft.cli.generate import generate
from multidraft.cli.head import head
from multidraft.cli.pull import models, pull
from multidraft.cli.tune import tune
from multidraft.cli.verifiers import verifiers
from multidraft.errors import MultidraftError

app = typer.Typer(
    help="Lossless speculative decoding with several drafts per round.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (generate, tune, calibrate, head, pull, models, verifiers):
    app.command()(command)
app.add_typer(audit, name="audit")
app.add_typer(bench, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"multidraft {__version__}")
        raise typer.Exit


@app.callback()
def frame(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; errors a user can mend end it with one line and exit code 2."""
    try:
        app()
    except MultidraftError as error:
        print(f"multidraft: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("multidraft: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as `head`, has left
        sys.stderr.close()
        sys.exit(141)
