"""Every example in a docstring is run, and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pathlib
import pkgutil
import sys

import pytest
from package.unpack_wheel import listed_packages

import penstock

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules() -> list[str]:
    """The name of every module; the package's directory is the checkout, so other things stand there too."""
    packages = set(listed_packages())
    names = ["penstock"]
    for name in sorted(packages):
        directory = pathlib.Path(penstock.__path__[0], *name.split(".")[1:])
        found = pkgutil.iter_modules([str(directory)], f"{name}.")
        names += [info.name for info in found if not info.ispkg or info.name in packages]
    return sorted(set(names))


@pytest.mark.parametrize("name", modules())
def test_the_examples_in_the_docstrings_of(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a module's examples, each docstring's with a namespace of its own."""
    # One module installs the import hook for Beam, which would stay for the tests after it.
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    report: list[str] = []
    for found in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        # Each run looks whether any source file has changed.
        if found.examples:
            runner.run(found, out=report.append)

    assert 0 == runner.failures, "".join(report)
