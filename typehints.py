"""Type hints: the names of Beam's `typehints`.

Type checkers read this module.  At run time `sdk/names/namespaces.py` has the names, and Beam's other ones.
"""

from typing import TYPE_CHECKING
from typing import Any as Any

from .sdk.typehints import *  # noqa: F403

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
