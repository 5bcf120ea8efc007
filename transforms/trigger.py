"""Triggers and accumulation modes: the names of Beam's `transforms.trigger`.

Type checkers read this module.  At run time `sdk/names/namespaces.py` has the names, and Beam's other ones.
"""

from typing import TYPE_CHECKING, Any

from ..triggers import *  # noqa: F403

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
