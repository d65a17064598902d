"""The command ``gpudissect``: its commands and exit codes.

Every error is one line on stderr, ``gpudissect: error: ...``. Exit codes: 0 done; 1 a bug in gpudissect; 2 wrong
usage; 3 no such device or it cannot be used; 4 done in part; 130 interrupted.
"""

import errno
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup
from typer.main import get_command

import gpudissect
from gpudissect.cli import discover, explain, fleet, get, links, results, workloads
from gpudissect.cli.completion import bash_words_joined
from gpudissect.cli.console import BUG, DONE, INTERRUPTED, discard_output, print_error, print_interrupted
from gpudissect.errors import WRITE_ERRORS, GpudissectError, UsageError
from gpudissect.interrupts import catch_stop_signals, stop_requested

_EXTRA_DEVICE = re.compile(r"unexpected extra argument.*\((?:.* )?((?:cuda|sim|rec):[^ )]*)")
COMPLETION = ("--install-completion", "--show-completion")


class _Interruptible(TyperGroup):
    """Typer turns KeyboardInterrupt into a silent exit; here it is left to `main`."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Abort from None


app = typer.Typer(
    cls=_Interruptible,
    help="Measure the memory hierarchy of a real, simulated or recorded GPU.",
    rich_markup_mode=None,  # plain help: rich would double the time it takes
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: list[Callable[..., Any]] = [
    *(discover.discover, discover.devices, workloads.chase, workloads.stream, workloads.mix, discover.hide),
    *(links.links, results.predict, explain.explain, results.show, get.get),
    *(results.check, results.compare, results.export, results.schema),
]
for command in COMMANDS:
    app.command()(command)
app.add_typer(fleet.app, name="fleet")


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"gpudissect {gpudissect.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _common_options(
    context: typer.Context,
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
    debug: Annotated[bool, Option("--debug", help="Print the traceback of an error.")] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # closed by the caller; files are still written
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (open to the end)
    catch_stop_signals()
    for out in (sys.stdout, sys.stderr):
        if hasattr(out, "reconfigure"):  # a name that this terminal cannot show must not end the run
            out.reconfigure(errors="backslashreplace")
    try:
        if len(arguments) > 1 and arguments[0] in COMPLETION:
            raise UsageError(f"{arguments[0]} takes nothing more: it is for the shell that runs it")
        with bash_words_joined():
            code = get_command(app).main(args=arguments, prog_name="gpudissect", standalone_mode=False)
        sys.stdout.flush()
        code = code if isinstance(code, int) else DONE
        if stop_requested() and code == DONE:  # a signal while results were saved
            raise KeyboardInterrupt
        return code
    except BrokenPipeError:
        discard_output()
        return DONE
    except SystemExit as end:  # raised by click: for a broken pipe, or by shell completion
        if end.code == 1:
            discard_output()
            return DONE
        return int(end.code or 0)
    except (KeyboardInterrupt, typer.Abort):
        print_interrupted()
        return INTERRUPTED
    except Exception as error:
        if stop_requested():  # an import or a library lost the KeyboardInterrupt
            print_interrupted()
            return INTERRUPTED
        if isinstance(error, OSError) and error.errno in WRITE_ERRORS:
            print_error(f"cannot write the output: {error.strerror}")
            discard_output()
            return GpudissectError.exit_code
        command = next((n for n, word in enumerate(arguments) if not word.startswith("-")), None)
        if "--debug" in arguments[:command]:  # not parsed yet if the command line itself is wrong
            import traceback

            traceback.print_exc()
        return _report(error)


def _report(error: Exception) -> int:
    if isinstance(error, GpudissectError):
        print_error(str(error))
        return error.exit_code
    if hasattr(error, "format_message"):  # of click, which typer may bundle: wrong arguments
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "gpudissect"
        message = error.format_message().rstrip(".").replace(": Value error, ", ": ")
        options = [name for each in context.command.params for name in each.opts] if context is not None else []
        if "-d" in options and (device := _EXTRA_DEVICE.search(message)):
            message = f"{message}; devices are given with -d: -d {device[1]}"
        print_error(f"{message}; see '{command} --help'")
        return GpudissectError.exit_code
    if isinstance(error, MemoryError):
        print_error("out of memory: use a smaller workload, or a machine with more memory")
        return GpudissectError.exit_code
    if isinstance(error, FileNotFoundError) and not _has_working_folder():
        print_error("the working folder was removed: change to another one")
        return GpudissectError.exit_code
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        print_error("too many open files: raise the limit (ulimit -n)")
        return GpudissectError.exit_code
    description = f"{type(error).__name__}: {error}".rstrip(": ")
    print_error(f"unexpected {description}; this is a bug: report it with the output of 'gpudissect --debug ...'")
    return BUG


def _has_working_folder() -> bool:
    try:
        return bool(os.getcwd())
    except OSError:
        return False
