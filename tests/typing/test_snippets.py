"""Types through `|`, as mypy and Pyright see them."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from types import ModuleType
from typing import Any

import pytest


def _module(name: str) -> ModuleType:
    """Return a module beside this one."""
    spec = importlib.util.spec_from_file_location(f"typing_{name}", pathlib.Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


checkers, snippets = _module("checkers"), _module("snippets")
EXPRESSIONS = [expression for expression, _ in snippets.SNIPPETS]


def test_mypy_says_what_the_table_says(found_by_mypy: list[dict[str, Any]]) -> None:
    """A type, or an error, for each snippet; and nothing for the definitions."""
    said = checkers.said_by_mypy(found_by_mypy, EXPRESSIONS)
    assert [] == said.errors.get(-1, [])
    wrong = {}
    for number, (expression, expected) in enumerate(snippets.SNIPPETS):
        found = said.types.get(number), said.errors.get(number, [])
        if isinstance(expected, snippets.Error):
            is_right = any(expected.mypy in error for error in found[1])
        else:
            is_right = found == (expected.mypy if isinstance(expected, snippets.Less) else expected, [])
        if not is_right:
            wrong[expression] = expected, found
    assert {} == wrong


def test_pyright_says_what_the_table_says(found_by_pyright: list[dict[str, Any]]) -> None:
    """A type, or an error, for each snippet; and nothing for the definitions."""
    said = checkers.said_by_pyright(found_by_pyright, EXPRESSIONS)
    assert [] == said.errors.get(-1, [])
    wrong = {}
    for number, (expression, expected) in enumerate(snippets.SNIPPETS):
        found = said.types.get(number), said.errors.get(number, [])
        if isinstance(expected, snippets.Error):
            texts = "\n".join(found[1])
            is_right = not texts if expected.pyright is None else expected.pyright in texts
        else:
            is_right = found == (expected.pyright if isinstance(expected, snippets.Less) else expected, [])
        if not is_right:
            wrong[expression] = expected, found
    assert {} == wrong


def test_the_definitions_run() -> None:
    """The checkers read what Python runs."""
    assert "PCollection[Map(inc)]" != repr(_module("definitions").lengths)


def test_the_table_is_long_and_pyright_knows_nearly_as_much_as_mypy() -> None:
    """At most a tenth of the snippets are marked, each with its reason."""
    marked = [expected for _, expected in snippets.SNIPPETS if isinstance(expected, snippets.Less)]
    assert len(snippets.SNIPPETS) >= 150
    assert 10 * len(marked) <= len(snippets.SNIPPETS)
    assert all(each.reason for each in marked)
    assert len(EXPRESSIONS) == len(set(EXPRESSIONS))


@pytest.mark.parametrize(
    ("revealed", "expected"),
    [
        ("penstock.sdk.pvalue.PCollection[tuple[builtins.str, Literal[1]?]]", "PCollection[tuple[str, int]]"),
        ("PCollection[tuple[Unknown, Literal['a', 'b']]]", "PCollection[tuple[Any, str]]"),
        ("list[tuple[builtins.str, builtins.float, fallback=module.Click]]", "list[Click]"),
    ],
)
def test_types_of_both_checkers_are_written_alike(revealed: str, expected: str) -> None:
    """Without modules, and with the classes of literals."""
    assert expected == checkers.plain(revealed)
