"""Flags of Beam that are accepted and have no effect."""

from __future__ import annotations

import re
from typing import Any

_FLAG = r"(?P<names>[\w,-]+)(?P<kind>[?!#*+]|\{\})?=?(?P<default>.*)"


def accept(parser: Any, flags: str, why: str = "", **own: Any) -> None:
    """Add flags that have no effect, described by words: `name`, or `name,alias`, followed by a kind and a default.

    The kinds: `#` takes an int, `*` is repeatable, `+` takes values separated by commas as well, `{}` takes JSON, `?`
    is a switch that is off by default, and `!` a switch that is on.  The default of the others is None.

    Args:
      why: the reason why they have no effect, and what to do in their place, which is logged if one is given.
      own: replaces arguments of `add_argument`, for all of the flags.
    """
    import argparse

    for described in flags.split():
        found = re.fullmatch(_FLAG, described)
        if found is None:
            raise ValueError(f"no description of a flag: {described!r}")
        names, default = found["names"].split(","), found["default"] or None
        settings: dict[str, Any] = {"dest": names[0].replace("-", "_"), "default": default, "help": argparse.SUPPRESS}
        match found["kind"]:
            case "#":
                settings.update(type=int, default=None if default is None else int(default))
            case "*":
                settings.update(action="append")
            case "+":
                from .parser import CommaSeparated

                settings.update(action=CommaSeparated)
            case "{}":
                import json

                settings.update(type=json.loads)
            case "?":
                settings.update(action="store_true", default={None: False, "True": True, "None": None}[default])
            case "!":
                settings.update(action="store_false", default=True)
        parser.add_argument(*(f"--{name}" for name in names), **{**settings, **own}).without_effect = why or True
