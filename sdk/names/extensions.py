"""Extensions: packages that add names, converters and methods to the core, which doesn't import them.

The root of the package declares those that it comes with, by the names of their modules.  An extension is imported when
something is looked for that the core doesn't have: a name of one of its modules, or what an extension point asks for.
Its import registers what it adds.

>>> @extension_point
... def spelled(hint):
...     \"\"\"Return the text of a hint.\"\"\"
>>> spelled(int)
Traceback (most recent call last):
penstock.sdk.errors.UnsupportedError: spelled() is a part of penstock.beam, which was imported and doesn't have it
>>> _ = spelled.provided_by(lambda hint: hint.__name__)
>>> spelled(int)
'int'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import update_wrapper
from importlib import import_module
from typing import Any, Generic, ParamSpec, TypeVar, cast

from ...persistence import before_unknown
from ..errors import UnsupportedError

P = ParamSpec("P")
R = TypeVar("R")

# The modules of extensions; those that aren't there, such as in an installation without them.
_declared: list[str] = []
_absent: set[str] = set()

# By package of the core, the names that extensions add to it, and the modules that have them.
_names: dict[str, dict[str, str]] = {}

# Modules that worker processes import before the functions of a program, and whether they have to.
_of_workers: dict[str, Callable[[], bool]] = {}


def declare(module: str) -> None:
    """Declare the module of an extension, which is imported when something of it may be needed."""
    if module not in _declared:
        _declared.append(module)


def load() -> bool:
    """Import the declared extensions, and return whether there are any."""
    for module in _declared:
        if module not in _absent:
            try:
                import_module(module)
            except ModuleNotFoundError as error:
                if error.name != module:
                    raise
                _absent.add(module)
    return len(_absent) < len(_declared)


before_unknown(load)


def advice(what: str) -> str:
    """Return what to tell of something that only an extension has.

    >>> print(advice("a Frobnicator"))
    a Frobnicator is a part of penstock.beam, which was imported and doesn't have it
    """
    names = " or ".join(_declared) or "an extension"
    state = "wasn't found: import penstock.beam fails" if _absent else "was imported and doesn't have it"
    return f"{what} is a part of {names}, which {state.replace('penstock.beam', names)}"


class ExtensionPoint(Generic[P, R]):
    """A function of the core that an extension provides; see `extension_point`."""

    def __init__(self, declared: Callable[P, R]) -> None:
        update_wrapper(cast(Any, self), declared)
        self._name = declared.__name__
        self._provided: Callable[P, R] | None = None

    def provided_by(self, function: Callable[P, R]) -> Callable[P, R]:
        """Register the function, and return it."""
        self._provided = function
        return function

    def is_provided(self) -> bool:
        """Return whether an extension provides the function.  Imports the extensions."""
        if self._provided is None:
            load()
        return self._provided is not None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function.  Raises `UnsupportedError` if no extension provides it."""
        if not self.is_provided():
            raise UnsupportedError(advice(f"{self._name}()"))
        return cast(Callable[P, R], self._provided)(*args, **kwargs)


def extension_point(declared: Callable[P, R]) -> ExtensionPoint[P, R]:
    """Return the extension point of a function without a body: its name, parameters and documentation."""
    return ExtensionPoint(declared)


def added_attribute(instance: Any, name: str) -> Any:
    """Return an attribute that an extension adds to the class of an instance.  Raises `AttributeError`.

    For `__getattr__` of the core's classes.
    """
    if not name.startswith("_"):
        load()
        for kind in type(instance).__mro__:
            if name in vars(kind):
                return object.__getattribute__(instance, name)
    raise AttributeError(f"{type(instance).__name__!r} object has no attribute {name!r}", name=name, obj=instance)


def add_names(package: str, modules: Mapping[str, str]) -> None:
    """Add names to a package of the core that has lazy names; see `lazy_names`.

    Args:
      modules: for each name the module that has it.
    """
    _names.setdefault(package, {}).update(modules)


def added_name(package: str, name: str) -> Any:
    """Return what an extension has for a name of a package of the core.  Raises `AttributeError`."""
    if not name.startswith("_"):
        load()
        if name in _names.get(package, {}):
            return getattr(import_module(_names[package][name]), name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def import_in_workers(module: str, is_needed: Callable[[], bool]) -> None:
    """Have worker processes import a module before the functions of a program.

    Args:
      is_needed: returns whether they have to, when a worker is started.
    """
    _of_workers[module] = is_needed


def modules_of_workers() -> list[str]:
    """Return the modules that worker processes import before the functions of a program."""
    return [module for module, is_needed in _of_workers.items() if is_needed()]
