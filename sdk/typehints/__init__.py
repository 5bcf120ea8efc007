"""Type hints of transforms' inputs and outputs, which are checked while the pipeline is built.

In reading order: hints reduced to a few shapes (`simplified`); fields of elements (`schema`), and of expressions
over them (`column_types`); compatibility of hints (`compatibility`), their parts (`parts`) and text (`describe`); the
type of given values (`inference`); declarations by decorators (`decorators`) and by annotations (`callables`); types of
batches (`batch`), and those of Arrow and pandas (`arrow_batches`).

Beam's names for types are here as well; they are those of `typing`.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple, TypeVar, Union  # noqa: UP035 (Beam's names)

from . import arrow_batches as arrow_batches  # It registers its converters.
from .callables import hints_of_callable
from .compatibility import is_compatible
from .decorators import declared_hints, declared_inputs, with_input_types, with_output_types
from .describe import describe
from .inference import infer_type
from .parts import element_of, is_definitely_not_pair, key_type, value_type

# A (key, value) pair: KV[str, int] is Tuple[str, int].
KV: Any = Tuple  # noqa: UP006 (as Beam users know it)
TypeVariable = TypeVar

__all__ = [
    "KV",
    "Any",
    "Callable",
    "Collection",
    "Dict",
    "FrozenSet",
    "Generator",
    "Iterable",
    "Iterator",
    "List",
    "Mapping",
    "Optional",
    "Sequence",
    "Set",
    "Tuple",
    "TypeVariable",
    "Union",
    "is_compatible",
    "element_of",
    "key_type",
    "value_type",
    "is_definitely_not_pair",
    "describe",
    "infer_type",
    "declared_hints",
    "declared_inputs",
    "with_input_types",
    "with_output_types",
    "hints_of_callable",
]
