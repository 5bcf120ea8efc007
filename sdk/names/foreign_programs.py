"""Programs that import another SDK: they run on penstock by an extension that knows the SDK's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from .extensions import extension_point

# Return True for a module of another SDK that runs on penstock here: elsewhere its import would import that SDK.
by_value: list[Callable[[ModuleType], bool]] = []


@extension_point
def install_import_hook() -> None:
    """Make the programs of this process import penstock in the place of the other SDK."""


@extension_point
def template_arguments(path: str, given: Sequence[str]) -> list[str]:
    """Return the flags of a run: those that are given, and others by a file that describes the program's.

    Raises `OptionsError` for flags that don't fit the file.
    """
    raise NotImplementedError


@extension_point
def missing_in(source: bytes) -> list[Any]:
    """Return what a program needs of the other SDK and penstock lacks, as objects with a `line` and a `reason`.

    Those that have `is_note` are accepted without effect.
    """
    raise NotImplementedError
