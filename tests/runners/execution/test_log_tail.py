"""The tail of the log: that it takes nothing from the terminal."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import logging
from penstock.runners.execution.log_tail import LogTail
{setup}
tails = [LogTail(), LogTail()]
for tail in tails:
    tail.install()
logging.getLogger("app").warning("a warning")
logging.getLogger("app").info("what nobody asked for")
for tail in tails:
    tail.remove()
logging.getLogger("app").warning("another")
print([[text for _, _, text in tail.taken()] for tail in tails])
"""

SETUPS = {
    "none": ("", ["a warning", "another"]),
    "a handler": ("logging.basicConfig(format='%(name)s: %(message)s')", ["app: a warning", "app: another"]),
    "one of the logger": ("logging.getLogger('app').addHandler(logging.NullHandler())", []),
    "no last resort": ("logging.lastResort = None", ['No handlers could be found for logger "app"']),
}


@pytest.mark.parametrize("setup", SETUPS)
def test_warnings_appear_as_without_it(setup: str) -> None:
    """Once, though no handler was set, and there are two."""
    lines, expected = SETUPS[setup]
    command = [sys.executable, "-c", PROGRAM.format(setup=lines)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert [["app: a warning"]] * 2 == eval(done.stdout)
    assert expected == done.stderr.splitlines()
