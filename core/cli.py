"""The command line: a click group whose commands, called verbs, are modules of `core.command`, imported only when used.

Exit status: 0 done; 1 the requested gate (a pass or fail check) fails; 2 invalid input, with one sentence on standard
error; 130 interrupted.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence

import click

from . import __version__
from .errors import DepthscopeError, Remedy, internal_sentence, no_memory, readable, unknown_name

VERBS = {
    "observe": "Observe both arms of a decoder at every residual site.",
    "trace": "Print the chapter's worked values, fixtures, classifiers and laptop plan.",
    "init": "Measure a Xavier matrix against its target.",
    "plan": "Count a decoder's parameters and bytes without building it.",
    "compare": "Say where two documents differ, what matters first.",
    "sweep": "Observe a grid of depths, seeds and recipes; resumable.",
    "recipes": "List every recipe with its law, graph and source.",
    "audit": "Find and prove a model's residual stream and judge its initialization.",
    "survey": "Audit every family of the installed transformers.",
    "lab": "Run an experiment of the signal, norm and path labs.",
}
DONE, GATE_FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
COMMAND, COMPLETE = "depthscope", "_DEPTHSCOPE_COMPLETE"
# An installed package is named as its command is; a checkout is not installed.
PROGRAM = COMMAND if __package__ == COMMAND else f"python -m {__package__}"
# What refusals call a way out here.
REMEDIES: Mapping[str, str] = {
    Remedy.PARAMETERS: "raise --max-parameters",
    Remedy.POSITIONS: "raise --max-positions",
    Remedy.SMALL_WIDTHS: "use --shrink",
    Remedy.SECONDS: "raise --max-seconds",
    Remedy.OUTPUT: "give another folder as --out",
    Remedy.SWEEP_OUTPUT: "give an empty folder or the folder of an earlier sweep as --out",
    Remedy.STORE: "give its path as --store",
    Remedy.SAVED: "give the folder that --save wrote",
    Remedy.RESTORED: "restore a folder that --save wrote",
    Remedy.CPU: "choose --device cpu",
    Remedy.NO_SCHEDULER: "leave --scheduler out",
    Remedy.FAMILIES: f"see `{PROGRAM} survey --families all`",
    Remedy.RECIPES: "all are listed by the page and the verb recipes",
    Remedy.SIZES: "give the sizes as options",
    Remedy.AUDIT: "audit the model itself with `audit`",
    Remedy.BY_BLOCK: "leave --driver graph out",
    Remedy.MEMORY: "raise --max-memory",
    Remedy.CHECKPOINT: "give another folder as --checkpoint",
    Remedy.EXPERIMENTS: "all are listed by lab --list",
}
OUT_OF_MEMORY = "This machine's memory does not hold that; make the decoder or the batch smaller."


EPILOG = f"""\b
Every verb has examples: {PROGRAM} observe --help
Completion of an installed {COMMAND} in bash, else zsh or fish:
  eval "$({COMPLETE}=bash_source {COMMAND})"
"""


class VerbGroup(click.Group):
    """A click group that imports the module of a command only to run the command or to show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands that are installed, in the order of the help."""
        return [verb for verb in VERBS if importlib.util.find_spec(f".command.{verb}", __package__) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the click command of that name, with its examples as epilog, or None if the name is unknown."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f".command.{cmd_name}", __package__).command
        assert isinstance(command, click.Command)
        command.epilog = importlib.import_module(".command.examples", __package__).epilog(cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command's name, the command, and the arguments that follow, as click expects.

        Raises `DepthscopeError`, with the nearest known names, if the command is unknown.
        """
        name = args[0]
        if not (ctx.resilient_parsing or name.startswith("-") or name in self.list_commands(ctx)):
            raise DepthscopeError(
                unknown_name("verb", name, self.list_commands(ctx)), f"all are listed by {PROGRAM} --help"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and one-line descriptions of all commands into the help, without importing the commands."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, VERBS[verb]) for verb in self.list_commands(ctx)])


@click.group(cls=VerbGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="depthscope")
def cli() -> None:
    """Depthscope: is a decoder's depth safe at initialization?"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit the process with the status of `run`."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 0 done, 1 gate failed, 2 refused, 130 interrupted.

    `arguments` defaults to `sys.argv[1:]`. Every error becomes one sentence on standard error, never a traceback.
    """
    try:
        # The shell that completes knows one word; people are shown what they typed.
        program = COMMAND if COMPLETE in os.environ else PROGRAM
        outcome = cli.main(args=arguments, prog_name=program, standalone_mode=False, complete_var=COMPLETE)
        if sys.stdout is not None:
            sys.stdout.flush()
        return outcome if isinstance(outcome, int) else DONE
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as help_page:
        click.echo(help_page.format_message())
        return DONE
    except (click.Abort, KeyboardInterrupt) as stop:
        # Click raises an abort from the interrupt, which says what is kept where something is.
        _say(str(stop.__cause__ or stop) or "Interrupted.")
        return INTERRUPTED
    except click.ClickException as error:
        _say(error.format_message())
    except DepthscopeError as error:
        _say(error.told(REMEDIES))
    except MemoryError:
        _say(OUT_OF_MEMORY)
    except OSError as error:
        _discard_output()
        _say(f"The output cannot be written: {error.strerror or error}.")
    except Exception as error:
        _say(OUT_OF_MEMORY if no_memory(error) else internal_sentence(error, "please report it with the command"))
    return REFUSED


def _say(sentence: str) -> None:
    words = " ".join(sentence.split())
    line = readable("".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in words))
    click.echo(line if line.endswith((".", "?")) else line + ".", err=True)


def _discard_output() -> None:
    """Replace an output that can no longer be written, so that no later flush fails, at exit either."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
