"""Transforms: the names of Beam's `transforms.ptransform`.

Type checkers read this module.  At run time `sdk/names/namespaces.py` has the names, and Beam's other ones.
"""

from typing import TYPE_CHECKING, Any

from ..sdk.ptransform import *  # noqa: F403

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
