"""A user's program, run with the flags that stand after it on our command line."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from ..sdk.compat import install_import_hook
from ..sdk.options import PipelineOptions, scoped_pipeline_options


def run_program(file: str, arguments: Sequence[str], beam: bool = False) -> None:
    """Run a Python file as `python file arguments...` would.

    Pipelines for which the program gives no options have those of the arguments: a program that
    says `beam.Pipeline()` can be sent to another runner by a flag too.

    Args:
      beam: whether `import apache_beam` is to give penstock's things.

    Raises whatever the program raises.
    """
    if beam:
        install_import_hook()
    sys.argv = [file, *arguments]
    sys.path.insert(0, str(Path(file).resolve().parent))
    # Without flags given to it, PipelineOptions reads sys.argv, and lets pass what is the program's own.
    with scoped_pipeline_options(PipelineOptions()):
        runpy.run_path(file, run_name="__main__")
