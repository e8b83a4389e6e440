"""The command line's group: verbs are modules of `core.command`, loaded only when asked for.

Exit status: 0 done, 1 the gate asked for fails, 2 a refused input, with one sentence on standard error.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence

import click

from core import __version__
from core.errors import DepthscopeError, internal_sentence, no_memory, readable

VERBS = {
    "observe": "Observe both arms of a decoder at every residual site.",
    "trace": "Print the chapter's worked values, fixtures, classifiers and laptop plan.",
    "init": "Measure a Xavier matrix against its target.",
    "plan": "Count a decoder's parameters and bytes without building it.",
    "compare": "Find the first value in which two documents differ.",
    "sweep": "Observe a grid of depths, seeds and recipes; resumable.",
    "recipes": "List every recipe with its law, graph and source.",
    "audit": "Find and prove a model's residual stream and judge its initialization.",
    "survey": "Audit every family of the installed transformers.",
    "lab": "Run an experiment of the signal, norm and path labs.",
}
DONE, GATE_FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
OUT_OF_MEMORY = "This machine's memory does not hold that; make the decoder or the batch smaller."


class VerbGroup(click.Group):
    """Imports a verb's module only to run it or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Verbs in the order people meet them."""
        return [verb for verb in VERBS if importlib.util.find_spec(f"core.command.{verb}") is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's click command, None for an unknown verb."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"core.command.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of verbs, without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, VERBS[verb]) for verb in self.list_commands(ctx)])


@click.group(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="depthscope")
def cli() -> None:
    """Depthscope: is a decoder's depth safe at initialization?"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; every refusal is one sentence on standard error."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    try:
        outcome = cli.main(args=arguments, prog_name="python -m core", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        return outcome if isinstance(outcome, int) else DONE
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as help_page:
        click.echo(help_page.format_message())
        return DONE
    except (click.Abort, KeyboardInterrupt):
        _say("Interrupted; what was finished is kept.")
        return INTERRUPTED
    except click.ClickException as error:
        _say(error.format_message())
    except DepthscopeError as error:
        _say(str(error))
    except MemoryError:
        _say(OUT_OF_MEMORY)
    except OSError as error:
        _discard_output()
        _say(f"The output cannot be written: {error.strerror or error}.")
    except Exception as error:
        _say(OUT_OF_MEMORY if no_memory(error) else internal_sentence(error, "please report it with the command"))
    return REFUSED


def _say(sentence: str) -> None:
    line = readable(" ".join(sentence.split()))
    click.echo(line if line.endswith(".") else line + ".", err=True)


def _discard_output() -> None:
    """No later flush, at exit either, may fail on an output that cannot take any more."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
