"""Player of one section of snippets, in the process of one side: `play.py SECTION OUTPUT`.

Real Beam and penstock both run this file.  It writes what each snippet prints to OUTPUT, as JSON.
"""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import os
import pathlib
import sys
import tempfile
import traceback
from collections.abc import Callable


def lines_of(snippet: Callable[[], None]) -> list[str]:
    """Run a snippet in an empty directory, and return the lines that it prints, sorted: elements have no order.

    What its child processes print counts. An error adds a line with its class.
    """
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile() as printed:
        os.chdir(directory)
        sys.stdout.flush()
        terminal = os.dup(1)
        os.dup2(printed.fileno(), 1)
        try:
            snippet()
        except Exception as error:
            traceback.print_exc()
            print("raised", type(error).__name__)
        finally:
            sys.stdout.flush()
            os.dup2(terminal, 1)
            os.close(terminal)
            os.chdir(before)
        printed.seek(0)
        return sorted(printed.read().decode().splitlines())


def play(section: str) -> dict[str, list[str]]:
    """Run the public functions of a module of snippets, in their order."""
    module = importlib.import_module(section)
    snippets = {
        name: found
        for name, found in vars(module).items()
        if inspect.isfunction(found) and found.__module__ == section and not name.startswith("_")
    }
    return {name: lines_of(snippet) for name, snippet in snippets.items()}


if __name__ == "__main__":
    _, section, output = sys.argv
    del sys.argv[1:]
    logging.disable(logging.CRITICAL)
    sys.path.insert(0, str(pathlib.Path(__file__).with_name("snippets")))
    pathlib.Path(output).write_text(json.dumps(play(section)))
