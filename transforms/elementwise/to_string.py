"""ToString: elements as text."""

from __future__ import annotations

from typing import Any

from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ..par_do.map_and_filter import Map


class ToString:
    """Transforms of elements to strings.

    >>> import penstock as beam
    >>> [1, None] | beam.ToString.Element()
    ['1', 'None']
    >>> [("a", 1), ("b", 2)] | beam.ToString.Kvs(": ")
    ['a: 1', 'b: 2']
    """

    @staticmethod
    def Element() -> PTransform[PCollection[Any], PCollection[str]]:
        """`str` of each element.

        Returns a `PCollection[str]`.
        """
        return "ElementToString" >> Map(str)

    @staticmethod
    def Iterables(delimiter: str | None = None) -> PTransform[PCollection[Any], PCollection[str]]:
        """The items of each element, as strings, joined by the delimiter, by default a comma.

        Returns a `PCollection[str]`.
        """
        joint = "," if delimiter is None else delimiter
        return "IterablesToString" >> Map(lambda items: joint.join(map(str, items))).with_output_types(str)

    @staticmethod
    def Kvs(delimiter: str | None = None) -> PTransform[PCollection[Any], PCollection[str]]:
        """Pairs as the key, the delimiter and the value.

        Returns a `PCollection[str]`.
        """
        joint = "," if delimiter is None else delimiter
        return "KvsToString" >> Map(lambda pair: joint.join(map(str, pair))).with_output_types(str)
