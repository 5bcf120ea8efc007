"""Lazy imports: names of a package whose modules are imported when the names are used."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from unittest import mock

import pytest

import penstock as beam


@pytest.mark.parametrize(
    ("package", "name", "module"),
    [
        (beam.io, "ReadFromText", "penstock.io.files.text"),
        (beam.io, "WriteToParquet", "penstock.io.files.parquet"),
        (beam.testing, "equal_to", "penstock.testing.util"),
    ],
)
def test_what_replaces_a_name_is_found_only_as_long_as_it_does(package: ModuleType, name: str, module: str) -> None:
    """In its own module, or in the package."""
    before = getattr(importlib.import_module(module), name)
    for place in (module, package.__name__):
        with mock.patch(f"{place}.{name}") as replaced:
            assert replaced is getattr(package, name)
        assert before is getattr(package, name)


def test_names_and_modules_are_found_and_others_are_no_attributes() -> None:
    assert beam.testing.util is sys.modules["penstock.testing.util"]
    assert {"ReadFromText", "WriteToKafka"} <= set(dir(beam.io))
    with pytest.raises(AttributeError, match="module 'penstock.io' has no attribute 'ReadFromNowhere'"):
        _ = beam.io.ReadFromNowhere  # type: ignore[attr-defined]
