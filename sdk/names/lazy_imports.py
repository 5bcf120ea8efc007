"""Lazy imports: the names of a package whose modules are imported when the names are used.

CPython doesn't specialize accesses to the names of a module that defines `__getattr__` (Python/specialize.c): each of
them takes 10 to 40 ns more.  So `penstock` itself, whose names occur in users' functions of elements, has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from .extensions import added_name


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, which imports a module when its name, or one of its names, is used.

    Args:
      package: the package's name.
      modules: for each name the module that has it, relative to the package.

    >>> attribute = lazy_names("penstock.testing", {"TestStream": "test_stream"})
    >>> attribute("TestStream").__module__
    'penstock.testing.test_stream'
    """
    submodules = {path.partition(".")[0] for path in modules.values()}

    def imported(name: str) -> Any:
        if name in modules:
            # Not kept in the package: a test may have replaced the module's for a while.
            return getattr(import_module(f"{package}.{modules[name]}"), name)
        if name in submodules:
            return import_module(f"{package}.{name}")
        return added_name(package, name)

    return imported
