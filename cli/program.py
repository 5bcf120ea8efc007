"""A user's program, run with the flags that stand after it on our command line."""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ..sdk.compat import install_import_hook
from ..sdk.options import PipelineOptions, pipeline_options
from ..sdk.options.context import options_of_program
from ..sdk.options.parser import OptionsParser
from ..sdk.options.pipeline_options import flags_in


def run_program(file: str, arguments: Sequence[str], beam: bool = False) -> None:
    """Run a Python file as `python file arguments...` would.

    Pipelines for which the program gives no options have those of the arguments: a program that
    says `beam.Pipeline()` can be sent to another runner by a flag too.  A flag that neither an option nor a
    parser of the program's knows is an error when a pipeline is made.

    Args:
      beam: whether `import apache_beam` is to give penstock's things.

    Raises whatever the program raises.
    """
    if beam:
        install_import_hook()
    sys.argv = [file, *arguments]
    sys.path.insert(0, str(Path(file).resolve().parent))
    # Without flags given to it, PipelineOptions reads sys.argv, and lets pass what is the program's own.
    with options_of_program(PipelineOptions()), _watched_parsers():
        runpy.run_path(file, run_name="__main__")


@contextmanager
def _watched_parsers() -> Iterator[None]:
    """Within, the flags that a parser of the program's takes, argparse's or click's, are known to be the program's."""
    taken: set[str] = set()
    parse_known_args, parse_args = argparse.ArgumentParser.parse_known_args, click.Command.parse_args

    def watched_argparse(self: Any, args: Any = None, namespace: Any = None, *rest: Any, **named: Any) -> Any:
        given = sys.argv[1:] if args is None else list(args)
        parsed, left = parse_known_args(self, args, namespace, *rest, **named)
        if not isinstance(self, OptionsParser):
            taken.update(set(flags_in(given)).difference(flags_in(left)))
        return parsed, left

    def watched_click(self: click.Command, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        left = parse_args(self, ctx, args)
        taken.update(set(flags_in(given)).difference(flags_in(ctx.args)))
        return left

    argparse.ArgumentParser.parse_known_args = watched_argparse  # type: ignore[method-assign]
    click.Command.parse_args = watched_click  # type: ignore[method-assign]
    before, pipeline_options.flags_of_program = pipeline_options.flags_of_program, taken
    try:
        yield
    finally:
        pipeline_options.flags_of_program = before
        argparse.ArgumentParser.parse_known_args = parse_known_args  # type: ignore[method-assign]
        click.Command.parse_args = parse_args  # type: ignore[method-assign]
