"""The command ``gpudissect``: its commands, and what becomes of errors.

Every error is one line on stderr, ``gpudissect: error: ...``. Exit codes: 0 done; 1 a bug in gpudissect; 2 wrong
usage; 3 no such device or it cannot be used; 4 done in part; 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

import gpudissect
from gpudissect.cli import chase, check, compare, devices, discover, export, hide, mix, predict, show, stream
from gpudissect.cli.complete import words_of_bash
from gpudissect.cli.say import error_line, note_line
from gpudissect.cli.signals import listen
from gpudissect.errors import GpudissectError

DONE, BUG, INTERRUPTED = 0, 1, 130


class _Interruptible(TyperGroup):
    """Typer turns KeyboardInterrupt into a silent exit; here it is left to `main`."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Abort from None


app = typer.Typer(
    cls=_Interruptible,
    help="Take a GPU's memory hierarchy apart by measurement: on a real, a simulated or a recorded GPU.",
    rich_markup_mode=None,  # plain help: rich would double the time it takes
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("discover")(discover.discover)
app.command("devices")(devices.devices)
app.command("chase")(chase.chase)
app.command("stream")(stream.stream)
app.command("mix")(mix.mix)
app.command("hide")(hide.hide)
app.command("predict")(predict.predict)
app.command("show")(show.show)
app.command("check")(check.check)
app.command("compare")(compare.compare)
app.command("export")(export.export)
app.command("schema")(show.schema)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpudissect {gpudissect.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _every_command(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # closed by whoever started us; what is written to files still counts
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (open to the end)
    listen()
    for out in (sys.stdout, sys.stderr):
        if hasattr(out, "reconfigure"):  # a name that this terminal cannot show must not end the run
            out.reconfigure(errors="backslashreplace")
    try:
        with words_of_bash():
            code = get_command(app).main(args=arguments, prog_name="gpudissect", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else DONE
    except BrokenPipeError:
        return _reader_left()
    except SystemExit as end:  # from click itself: a closed pipe that it saw first, or shell completion
        return _reader_left() if end.code == 1 else int(end.code or 0)
    except (KeyboardInterrupt, typer.Abort):
        note_line("interrupted")
        return INTERRUPTED
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at exit
            error_line(f"cannot write the output: {error.strerror}")
            return GpudissectError.exit_code
        if _debugging(arguments):
            traceback.print_exc()
        return _explain(error)
    except Exception as error:
        if _debugging(arguments):
            traceback.print_exc()
        return _explain(error)


def _debugging(arguments: Sequence[str]) -> bool:
    """Whether --debug stands before the command (it may be the command line itself that is wrong)."""
    return "--debug" in arguments[: next((n for n, word in enumerate(arguments) if not word.startswith("-")), None)]


def _explain(error: Exception) -> int:
    if isinstance(error, GpudissectError):
        error_line(str(error))
        return error.exit_code
    if hasattr(error, "format_message"):  # click's own complaints about arguments, vendored by typer or not
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "gpudissect"
        said = error.format_message().rstrip(".").replace(": Value error, ", ": ")  # its own word, no reader's
        error_line(f"{said}; see '{command} --help'")
        return GpudissectError.exit_code
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    error_line(f"unexpected {said}; this is a bug: please report it with what 'gpudissect --debug ...' prints")
    return BUG


def _reader_left() -> int:
    """Whoever read stdout has seen enough (``| head``): end quietly, and let Python's own last flush fail nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE
