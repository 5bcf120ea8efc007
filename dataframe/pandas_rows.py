"""Frames of pandas as rows, which an extension provides."""

from __future__ import annotations

from typing import Any

from ..sdk.names.extensions import extension_point
from ..sdk.ptransform import PTransform


@extension_point
def rows_of_pandas(proxy: Any, include_indexes: bool) -> PTransform:
    """Return the transform that splits frames of pandas into rows.

    Args:
      proxy: an empty frame, with the types of the columns.
      include_indexes: puts the levels of the index before the columns.
    """
    raise NotImplementedError
