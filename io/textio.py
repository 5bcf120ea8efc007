"""Text files: the names of Beam's `io.textio`.

Type checkers read this module.  At run time `sdk/namespaces.py` has the names, and Beam's other ones.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
