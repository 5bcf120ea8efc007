"""`python -m penstock`: run, check, draw and simulate pipelines, list the runners, inspect checkpoints, serve pages."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from . import __version__
from .cli.checkpoint_changes import diff, migrate
from .cli.checkpoints import checkpoints
from .cli.draw import draw
from .cli.program import run_program
from .cli.runner_list import describe_runners
from .cli.short_errors import short_message
from .cli.simulate import simulate
from .cli.state import state
from .sdk.names.foreign_programs import template_arguments

FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False))
ARGUMENTS = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
BEAM = click.option("--beam", is_flag=True, help="The program imports apache_beam: give it penstock instead.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Penstock: the Dataflow Model in Python."""


class _WithPipelineFlags(click.Command):
    """A command whose help ends with the flags of pipelines."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from .sdk.options import describe_options

        formatter.write("\nFlags of pipelines, by group:\n\n" + describe_options() + "\n")


def _existing(ctx: click.Context, param: click.Parameter, file: str) -> str:
    """Return the path of a file, or the name of a module.  Raises `click.BadParameter` for a file that isn't there."""
    if ctx.params["as_module"]:
        return file
    return str(click.Path(exists=True, dir_okay=False).convert(file, param, ctx))


# Flags after the file are the program's, --help included.
@main.command(
    cls=_WithPipelineFlags, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@BEAM
@click.option("-m", "as_module", is_flag=True, is_eager=True, help="FILE is the name of a module, as of python -m.")
@click.option("--template", metavar="JSON", help="The metadata file of a flex template: it checks the file's flags.")
@click.argument("file", callback=_existing)
@ARGUMENTS
def run(file: str, arguments: tuple[str, ...], beam: bool, as_module: bool, template: str | None) -> None:
    """Run a Python file, or a module, that runs pipelines.

    Flags after the file are the file's own and the pipelines', such as --runner=spark-batch.  A flag that is unknown to
    the file's parsers (argparse, click) and to all classes of options is an error when a pipeline is created.
    Defaults of a --template are added to them.
    """
    try:
        if template is not None:
            arguments = tuple(template_arguments(template, arguments))
        run_program(file, arguments, beam, as_module)
    except SystemExit:
        # A missing option, too, which has printed the usage.
        raise
    except Exception as error:
        click.echo(short_message(error), err=True)
        sys.exit(1)


@main.command(context_settings={"ignore_unknown_options": True})
@click.option("--format", type=click.Choice(["mermaid", "dot"]), default="mermaid", show_default=True)
@BEAM
@FILE
@ARGUMENTS
def graph(file: str, arguments: tuple[str, ...], format: str, beam: bool) -> None:
    """Draw the pipelines of a Python file, without running them.

    The rest of the file runs as usual.
    """
    from .cli.drawn_graphs import graphs_of
    from .sdk.drawing.drawing import to_dot, to_mermaid

    graphs, error = graphs_of(file, arguments, beam)
    for each in graphs:
        click.echo((to_dot if format == "dot" else to_mermaid)(each))
    if error is not None:
        click.echo(short_message(error), err=True)
    if not graphs:
        click.echo(f"{file}: no pipeline was run, so there is none to draw", err=True)
        sys.exit(1)


@main.command()
@click.option("--beam", is_flag=True, required=True, help="Check programs that import apache_beam.")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def check(files: tuple[Path, ...], beam: bool) -> None:
    """Check what programs need of Beam.

    Reports what Python files need that penstock doesn't have. The files, or all Python files of directories, are
    parsed, and not run. The exit status is 1 if something is missing, otherwise 0. A note names what is accepted and
    has no effect.
    """
    from .sdk.names.foreign_programs import missing_in

    found = False
    for file in (each for path in files for each in (sorted(path.rglob("*.py")) if path.is_dir() else [path])):
        for missing in missing_in(file.read_bytes()):
            found |= not missing.is_note
            click.echo(f"{file}:{missing.line}: {'note: ' * missing.is_note}{missing.reason}")
    sys.exit(found)


@main.command()
def runners() -> None:
    """List the runners with their capabilities."""
    click.echo(describe_runners())


@main.command()
@click.argument("directory")
@click.option(
    "--port", type=int, default=8081, show_default=True, help="The port to serve the page at; 0 for a free one."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to serve the page at.")
def ui(directory: str, port: int, host: str) -> None:
    """Serve the page of a run from its DIRECTORY of checkpoints.

    The run may have ended, or run in another process: the page follows its log of events.
    """
    from .sdk.errors import PenstockError

    try:
        from .ui.directory import serve_directory

        serve_directory(directory, host, port)
    except ModuleNotFoundError as error:
        from .sdk.errors import missing_extra

        click.echo(str(missing_extra(error.name or "starlette", "ui", "penstock ui")), err=True)
        sys.exit(1)
    except PenstockError as error:
        click.echo(f"{type(error).__name__}: {error}", err=True)
        sys.exit(1)


checkpoints.add_command(diff)
checkpoints.add_command(migrate)
main.add_command(checkpoints)
main.add_command(draw)
main.add_command(simulate)
main.add_command(state)


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"penstock {__version__}")


if __name__ == "__main__":
    main(prog_name="python -m penstock")
