"""Type hints of transforms' inputs and outputs, which are checked while the pipeline is built.

In reading order: hints reduced to a few shapes (`simplified`); fields of elements (`schema`), and of expressions over
them (`column_types`); compatibility of hints (`compatibility`), their parts (`parts`) and text (`describe`); the type
of given values (`inference`); declarations by decorators (`decorators`), by annotations (`callables`) and by parameters
of classes (`class_parameters`), and those of composites (`expand_types`); Arrow schemas of classes (`arrow_schema`);
types of batches (`batch`), and those of Arrow and pandas (`arrow_batches`).

`penstock.typehints` has Beam's names for types as well, such as `KV[str, int]`.  They make constraints, which are
accepted wherever hints of `typing` are (`forms`).
"""

from __future__ import annotations

from . import arrow_batches as arrow_batches  # It registers its converters.
from .callables import disable_type_annotations, hints_of_callable, no_annotations
from .compatibility import is_compatible
from .decorators import declared_hints, declared_inputs, declared_tags, with_input_types, with_output_types
from .describe import describe
from .inference import infer_type
from .parts import element_of, is_definitely_not_pair, key_type, pair_of, value_type

__all__ = [
    "is_compatible",
    "element_of",
    "key_type",
    "value_type",
    "pair_of",
    "is_definitely_not_pair",
    "describe",
    "infer_type",
    "declared_hints",
    "declared_inputs",
    "declared_tags",
    "with_input_types",
    "with_output_types",
    "hints_of_callable",
    "no_annotations",
    "disable_type_annotations",
]
