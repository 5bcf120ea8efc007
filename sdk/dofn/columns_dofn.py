"""ColumnsDoFn: the outputs of a DoFn as columns, where the operations behind it understand them."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from ..columns.column_bundle import ColumnBundle, column_properties
from ..columns.column_elements import Elements
from ..elements.bundle import Bundle
from ..elements.element_wrappers import TaggedOutput
from .batched_dofn import BundleDoFn
from .dofn import DoFn

# Of fewer elements columns cost more than they save.
FEWEST = 8


class ColumnsDoFn(BundleDoFn):
    """A DoFn of one output for each element, which gives columns.

    Outputs that columns can't hold as they are become elements, and so do those of small bundles.

    Args:
      fn: gives the outputs for an element.
    """

    def __init__(self, fn: DoFn) -> None:
        self.fn = fn

    def of_elements_by(self, fn: DoFn) -> ColumnsDoFn:
        """Return the DoFn with another one for single elements, which may have tagged outputs."""
        twin = copy.copy(self)
        twin.fn = fn
        return twin

    @abstractmethod
    def columns(self, values: list[Any]) -> tuple[Any, Elements] | None:
        """Return a record batch of the outputs for elements, and what makes the outputs of it.

        None if columns can't hold them, or if `fn` may fail for an element.
        """

    @abstractmethod
    def columns_of(self, outputs: list[Any]) -> tuple[Any, Elements] | None:
        """Return the same for outputs of `fn`."""

    def tagged_outputs(self, bundle: Bundle) -> Iterator[tuple[str | None, Bundle]]:
        found = self.columns(bundle.values) if len(bundle) >= FEWEST else None
        if found is not None:
            yield None, ColumnBundle(*found, *column_properties(bundle))
            return
        outputs: dict[str | None, list[Any]] = {}
        indices: dict[str | None, list[int]] = {}
        process: Any = self.fn.process
        for index, element in enumerate(bundle.values):
            for output in process(element) or ():
                tag, value = (output.tag, output.value) if type(output) is TaggedOutput else (None, output)
                outputs.setdefault(tag, []).append(value)
                indices.setdefault(tag, []).append(index)
        for tag, values in outputs.items():
            part = _with_values(bundle, values, indices[tag])
            found = self.columns_of(values) if tag is None and len(values) >= FEWEST else None
            yield tag, part if found is None else ColumnBundle(*found, *column_properties(part))


def _with_values(bundle: Bundle, values: list[Any], indices: Sequence[int]) -> Bundle:
    """Return outputs for the elements of these indices, with the properties of the elements."""
    columns: list[Any] = [bundle.timestamps, bundle.windows, bundle.panes, bundle.signs]
    return Bundle(values, *([column[i] for i in indices] if type(column) is list else column for column in columns))
