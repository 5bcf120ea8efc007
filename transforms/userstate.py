"""States and timers: the names of Beam's `transforms.userstate`.

Type checkers read this module.  At run time `sdk/names/namespaces.py` has the names, and Beam's other ones.
"""

from typing import TYPE_CHECKING, Any

from ..sdk.userstate import *  # noqa: F403

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
