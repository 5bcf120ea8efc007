"""Whether what one transform produces can be what the next one takes."""

from __future__ import annotations

import numbers
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from ..row import Row
from .simplified import class_and_args, members, simplified

# What may stand where the other is asked for (PEP 484, the numeric tower); NumPy's
# numbers are registered with these too.
_TOWER = {int: numbers.Integral, float: numbers.Real, complex: numbers.Number}


def is_compatible(produced: Any, accepted: Any) -> bool:
    """Return whether elements of type `produced` may be given to what takes `accepted`.

    Answers False only where that is certain to be wrong.  What it knows nothing of is
    compatible.  All members of a produced union have to be accepted.

    >>> is_compatible(int, float), is_compatible(tuple[str, int], tuple[str, str])
    (True, False)
    """
    try:
        return _is_compatible(simplified(produced), simplified(accepted))
    except (TypeError, RecursionError):
        # Some special forms can't be compared or asked for their subclasses.
        return True


def _is_compatible(produced: Any, accepted: Any) -> bool:
    if produced is Any or accepted is Any or produced == accepted:
        return True
    alternatives = members(produced)
    if alternatives is not None:
        return all(is_compatible(alternative, accepted) for alternative in alternatives)
    alternatives = members(accepted)
    if alternatives is not None:
        return any(is_compatible(produced, alternative) for alternative in alternatives)
    made, made_args = class_and_args(produced)
    wanted, wanted_args = class_and_args(accepted)
    if made is None or wanted is None:
        return True
    return _is_subclass(made, wanted) and _args_fit(made, made_args, wanted, wanted_args)


def _is_subclass(made: type, wanted: type) -> bool:
    if typing.is_typeddict(wanted):
        return issubclass(made, Mapping)
    if typing.is_typeddict(made):
        return issubclass(dict, wanted)
    # A row has whatever fields it has, and a protocol can be met by anything.
    if issubclass(made, Row) or (getattr(wanted, "_is_protocol", False) is True and not _is_abc(wanted)):
        return True
    return issubclass(made, _TOWER.get(wanted, wanted)) or issubclass(made, wanted)


def _is_abc(kind: type) -> bool:
    return kind.__module__ in ("collections.abc", "typing")


def _args_fit(made: type, made_args: tuple[Any, ...], wanted: type, wanted_args: tuple[Any, ...]) -> bool:
    """Return whether the parameters fit, the class being right already."""
    if not made_args and issubclass(made, str):
        made_args = (str,)
    if not made_args or not wanted_args:
        return True
    if issubclass(made, tuple):
        return _tuple_fits(made_args, wanted, wanted_args)
    if len(wanted_args) == 1 and issubclass(wanted, Iterable):
        # What is iterated over comes first: a dictionary's keys, what a generator yields.
        return is_compatible(made_args[0], wanted_args[0])
    if issubclass(wanted, (Mapping, Iterable)) and len(made_args) == len(wanted_args):
        return all(map(is_compatible, made_args, wanted_args))
    # Of a user's own generic class it isn't known what its parameters mean.
    return True


def _tuple_fits(made_args: tuple[Any, ...], wanted: type, wanted_args: tuple[Any, ...]) -> bool:
    made_args, made_is_open = _places(made_args)
    if not issubclass(wanted, tuple):
        return len(wanted_args) != 1 or all(is_compatible(made, wanted_args[0]) for made in made_args)
    wanted_args, wanted_is_open = _places(wanted_args)
    if wanted_is_open:
        return all(is_compatible(made, wanted_args[0]) for made in made_args)
    if made_is_open:
        return all(is_compatible(made_args[0], wanted) for wanted in wanted_args)
    return len(made_args) == len(wanted_args) and all(map(is_compatible, made_args, wanted_args))


def _places(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], bool]:
    """A tuple's places, and whether it is one of any length."""
    if args == ((),):
        return (), False
    return (args[:1], True) if args[-1] is Ellipsis else (args, False)
