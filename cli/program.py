"""Execution of a user's program with the flags that follow it on the command line."""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ..sdk.names.foreign_programs import install_import_hook
from ..sdk.options import PipelineOptions, pipeline_options
from ..sdk.options.context import options_of_program
from ..sdk.options.flags import flags_in
from ..sdk.options.parser import OptionsParser
from ..sdk.process.working_directory import working_directory


def run_program(file: str, arguments: Sequence[str], beam: bool = False, as_module: bool = False) -> None:
    """Run a Python file as `python file arguments...` would.

    Pipelines without given options have those of the arguments: `beam.Pipeline()` can be run on another runner by a
    flag. A flag that is neither an option nor known to a parser of the program is an error when a pipeline is created.

    Args:
      beam: makes `import apache_beam` import penstock.
      as_module: takes `file` as the name of a module, as of `python -m`.

    Raises the program's exceptions.
    """
    if beam:
        install_import_hook()
    sys.argv = [file, *arguments]
    sys.path.insert(0, working_directory(f"-m {file}") if as_module else str(Path(file).resolve().parent))
    # Without flags, PipelineOptions reads sys.argv, and ignores the program's own flags.
    with options_of_program(PipelineOptions()), _watched_parsers():
        if as_module:
            runpy.run_module(file, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(file, run_name="__main__")


@contextmanager
def _watched_parsers() -> Iterator[None]:
    """Record the flags of the program's parsers, of argparse or click, within the block."""
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
