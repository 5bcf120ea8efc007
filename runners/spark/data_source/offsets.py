"""Positions of an unbounded source as offsets of Structured Streaming, which are JSON in the checkpoint of a query.

Partitions and offsets are pickled, but reading them runs no code of others: of classes, only the package's stored types
are read.

>>> from penstock.windowing import IntervalWindow
>>> text = encoded([("a", 1), IntervalWindow(0, 1)], "Read")
>>> decoded(text, "Read")
[('a', 1), [0.0, 1.0)]
"""

from __future__ import annotations

import base64
import binascii
import io
import pickle
from collections.abc import Callable
from typing import Any

from ....persistence import NAMESPACE, restorer
from ....sdk.errors import SourceError
from ...execution.serialization.records import pickled

_ADVICE = "Offsets have to be data."


def encoded(value: Any, label: str) -> str:
    """Return data as text.

    Raises `SourceError`, naming the transform, for an instance of a class that `decoded` doesn't read.
    """
    text = base64.b64encode(pickled(value, label, _ADVICE)).decode()
    decoded(text, label)
    return text


def decoded(text: Any, label: str) -> Any:
    """Return the data of `encoded`.  Raises `SourceError`, naming the transform, for other text."""
    try:
        return _Unpickler(io.BytesIO(base64.b64decode(text, validate=True)), label).load()
    except (binascii.Error, pickle.UnpicklingError, EOFError, LookupError, TypeError, ValueError) as error:
        raise SourceError(
            f"{label}: the query's checkpoint has {str(text)[:80]!r} as an offset; expected one of the data source "
            f"penstock ({error}). Start the query with another checkpointLocation"
        ) from error


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, label: str) -> None:
        super().__init__(file)
        self._label = label

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        if module == NAMESPACE:
            return restorer(name)
        raise SourceError(
            f"{self._label}: an offset has an instance of {module}.{name}, which isn't read from a query's checkpoint; "
            "expected numbers, text, bytes, tuples, lists, dictionaries, and penstock's own types. Read the source by "
            "--runner=spark-microbatch, or let its offsets be tuples"
        )
