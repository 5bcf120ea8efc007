"""Compatibility of a transform's output type with the next one's input type."""

from __future__ import annotations

import numbers
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from ..elements.row import Row
from .simplified import class_and_args, members, simplified

# Types that are accepted in place of others (PEP 484, the numeric tower).  NumPy's numbers are registered with these,
# too.
_TOWER = {int: numbers.Integral, float: numbers.Real, complex: numbers.Number}


def is_compatible(produced: Any, accepted: Any, is_inferred: bool = False) -> bool:
    """Return whether elements of type `produced` may be the input of a transform that takes `accepted`.

    Returns False only for a certain mismatch; unknown types are compatible.  All members of a produced union must be
    accepted, if it is declared.

    Args:
      is_inferred: True if `produced` is what a function's code may return.  Then one member of a union is enough: the
        others may be of branches that these elements don't take.

    >>> is_compatible(int, float), is_compatible(tuple[str, int], tuple[str, str])
    (True, False)
    >>> is_compatible(str | None, str), is_compatible(str | None, str, is_inferred=True)
    (False, True)
    """
    try:
        return _is_compatible(simplified(produced), simplified(accepted), is_inferred)
    except (TypeError, RecursionError):
        # Some special forms can't be compared and have no subclasses.
        return True


def _is_compatible(produced: Any, accepted: Any, is_inferred: bool) -> bool:
    if produced is Any or accepted is Any or produced == accepted:
        return True
    alternatives = members(produced)
    if alternatives is not None:
        fit = (is_compatible(alternative, accepted, is_inferred) for alternative in alternatives)
        return any(fit) if is_inferred else all(fit)
    alternatives = members(accepted)
    if alternatives is not None:
        return any(is_compatible(produced, alternative, is_inferred) for alternative in alternatives)
    made, made_args = class_and_args(produced)
    wanted, wanted_args = class_and_args(accepted)
    if made is None or wanted is None:
        return True
    return _is_subclass(made, wanted) and _args_fit(made, made_args, wanted, wanted_args, is_inferred)


def _is_subclass(made: type, wanted: type) -> bool:
    if typing.is_typeddict(wanted):
        return issubclass(made, Mapping)
    if typing.is_typeddict(made):
        return issubclass(dict, wanted)
    # A row may have any fields, and any class may implement a protocol.
    if issubclass(made, Row) or (getattr(wanted, "_is_protocol", False) is True and not _is_abc(wanted)):
        return True
    return issubclass(made, _TOWER.get(wanted, wanted)) or issubclass(made, wanted)


def _is_abc(kind: type) -> bool:
    return kind.__module__ in ("collections.abc", "typing")


def _args_fit(
    made: type, made_args: tuple[Any, ...], wanted: type, wanted_args: tuple[Any, ...], is_inferred: bool
) -> bool:
    """Return whether the type parameters of compatible classes fit."""
    fits = partial(is_compatible, is_inferred=is_inferred)
    if not made_args and issubclass(made, str):
        made_args = (str,)
    if not made_args or not wanted_args:
        return True
    if issubclass(made, tuple):
        return _tuple_fits(made_args, wanted, wanted_args, fits)
    if len(wanted_args) == 1 and issubclass(wanted, Iterable):
        # The type of iteration comes first: a dictionary's keys, a generator's items.
        return fits(made_args[0], wanted_args[0])
    if issubclass(wanted, (Mapping, Iterable)) and len(made_args) == len(wanted_args):
        return all(map(fits, made_args, wanted_args))
    # The meaning of the parameters of a user's generic class is unknown.
    return True


def _tuple_fits(
    made_args: tuple[Any, ...], wanted: type, wanted_args: tuple[Any, ...], fits: Callable[[Any, Any], bool]
) -> bool:
    made_args, made_is_open = _positional(made_args)
    if not issubclass(wanted, tuple):
        return len(wanted_args) != 1 or all(fits(made, wanted_args[0]) for made in made_args)
    wanted_args, wanted_is_open = _positional(wanted_args)
    if wanted_is_open:
        return all(fits(made, wanted_args[0]) for made in made_args)
    if made_is_open:
        return all(fits(made_args[0], wanted) for wanted in wanted_args)
    return len(made_args) == len(wanted_args) and all(map(fits, made_args, wanted_args))


def _positional(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], bool]:
    """Return the item types of a tuple, and whether it has any length."""
    if args == ((),):
        return (), False
    return (args[:1], True) if args[-1] is Ellipsis else (args, False)
