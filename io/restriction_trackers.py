"""Restrictions: the names of Beam's `io.restriction_trackers`.

Type checkers read this module.  At run time `sdk/names/namespaces.py` has the names, and Beam's other ones.
"""

from typing import TYPE_CHECKING, Any

from ..sdk.dofn.offset_range import *  # noqa: F403
from ..sdk.dofn.splittable_dofn import *  # noqa: F403

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
