"""Type variables of generic classes, with the default `Any`, so that `ParDo` alone is a type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from .elements.row import Row
    from .static_types import Same

    # An element, an output, and a key.
    A = TypeVar("A", default=Any)
    B = TypeVar("B", default=Any)
    K = TypeVar("K", default=Any)
    # The result of a function.
    R = TypeVar("R", default=Any)
    T = TypeVar("T", default=Any)
    T_co = TypeVar("T_co", covariant=True, default=Any)
    # A combiner.
    CombinerT_co = TypeVar("CombinerT_co", covariant=True, default=Any)
    # The elements that `Filter` keeps: the same type, or that of a type guard.
    KeptT = TypeVar("KeptT", default=Same)
    # The elements of a source whose type a class gives.
    RowT = TypeVar("RowT", default=Row)
    # The input and the output of a transform or a DoFn.
    InputT = TypeVar("InputT", contravariant=True, default=Any)
    OutputT = TypeVar("OutputT", covariant=True, default=Any)
else:
    from typing import TypeVar

    A, B, K, R, T = map(TypeVar, "ABKRT")
    KeptT = TypeVar("KeptT")
    RowT = TypeVar("RowT")
    T_co = TypeVar("T_co", covariant=True)
    CombinerT_co = TypeVar("CombinerT_co", covariant=True)
    InputT = TypeVar("InputT", contravariant=True)
    OutputT = TypeVar("OutputT", covariant=True)
