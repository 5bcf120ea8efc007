"""Values that are given when a pipeline runs: the names of Beam's `options.value_provider`.

Type checkers read this module.  At run time `sdk/names/namespaces.py` has the names, and Beam's other ones.
"""

from typing import TYPE_CHECKING, Any

from ..sdk.options.value_provider import *  # noqa: F403

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
