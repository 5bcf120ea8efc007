"""Plugin for pytest that runs the tests of a program for Beam: `python -m pytest -p penstock.beam`.

`import apache_beam` imports penstock under Beam's names, in the tests, in what they test, and in conftest.py.
"""

from __future__ import annotations

import sys

import pytest

from ..sdk.names.namespaces import Namespace
from .import_hook import install_import_hook


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Serve `apache_beam` before the first conftest.py is imported.

    Raises `pytest.UsageError` if another plugin has imported Beam itself.
    """
    found = sys.modules.get("apache_beam")
    if found is not None and not isinstance(found, Namespace):
        raise pytest.UsageError(
            f"-p penstock.beam: apache_beam was imported before, from {found.__file__}; leave out the plugin of pytest "
            "that imports it, by -p no:NAME"
        )
    install_import_hook()


def pytest_report_header() -> str:
    """Return the line that tells which Beam the tests run on."""
    return "apache_beam: penstock"
