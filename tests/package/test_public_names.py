"""The public names are those of a list; `dir()` and `help()` show these, under the names that a program uses."""

from __future__ import annotations

import inspect
import pydoc
from types import ModuleType

import pytest
from package.public_names import LIST, public_names

import penstock as beam


def test_the_public_names_and_their_parameters_are_those_of_the_list() -> None:
    """A change of them is a change of the list: run tests/package/public_names.py.

    A removed name or parameter follows the policy in docs/versions.md.
    """
    assert LIST.read_text().splitlines() == public_names()


@pytest.mark.parametrize("module", [beam, beam.io], ids=["penstock", "penstock.io"])
def test_dir_shows_public_names_only(module: ModuleType) -> None:
    """Neither what the module imports for itself, nor its submodules, unless they are public."""
    names = [name for name in dir(module) if not name.startswith("__")]

    assert sorted(set(module.__all__)) == names
    assert {"annotations", "Any", "TYPE_CHECKING", "compat", "sdk", "records", "_LAZY"}.isdisjoint(names)


@pytest.mark.parametrize("module", [beam, beam.io], ids=["penstock", "penstock.io"])
def test_a_class_has_the_name_by_which_it_is_called(module: ModuleType) -> None:
    """Except for the names of the paper, and aliases of Beam."""
    named = {name: thing for name in module.__all__ if inspect.isclass(thing := getattr(module, name))}
    others = {name: thing.__name__ for name, thing in named.items() if thing.__name__ != name}

    assert ({"AssignWindows": "WindowInto", "GroupByKeyAndWindow": "GroupByKey"} if module is beam else {}) == others


def test_help_describes_the_public_classes_under_their_names() -> None:
    """As a newcomer reads it."""
    text = pydoc.render_doc(beam, renderer=pydoc.plaintext)

    assert "class WindowInto(" in text
    assert "class GroupByKey(" in text
    assert "find_beams_modules_here" not in text
