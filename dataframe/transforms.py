"""DataframeTransform: a function of deferred frames as a transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..sdk.ptransform import PTransform
from .convert import to_dataframe, to_pcollection


class DataframeTransform(PTransform):
    """A function of frames, applied to the rows of a PCollection, of several in a tuple, or in a dict by keyword.

    Args:
      func: returns a frame or a series, or several in a tuple or a dict, which become PCollections.
      proxy: if the elements are frames or series of pandas, an empty one, as in `to_dataframe`: in a tuple or a dict
        for several PCollections.
      yield_elements, include_indexes: as in `to_pcollection`.

    >>> import penstock as beam
    >>> sales = [beam.Row(item="tea", cups=2), beam.Row(item="milk", cups=1), beam.Row(item="tea", cups=5)]
    >>> with beam.Pipeline() as p:
    ...     total = DataframeTransform(lambda df: df.groupby("item").sum(), include_indexes=True)
    ...     _ = p | beam.Create(sales) | total | beam.Map(print)
    Result(item='tea', cups=7)
    Result(item='milk', cups=1)
    """

    def __init__(
        self,
        func: Callable[..., Any],
        proxy: Any = None,
        yield_elements: str = "schemas",
        include_indexes: bool = False,
    ) -> None:
        super().__init__()
        self.func = func
        self.proxy = proxy
        self.yield_elements = yield_elements
        self.include_indexes = include_indexes

    def expand(self, inputs: Any) -> Any:
        if isinstance(inputs, dict):
            proxies = self.proxy or {}
            frames = {tag: to_dataframe(pcoll, proxies.get(tag), str(tag)) for tag, pcoll in inputs.items()}
            result = self.func(**frames)
        elif isinstance(inputs, (tuple, list)):
            proxies = self.proxy or [None] * len(inputs)
            result = self.func(*(to_dataframe(pcoll, proxies[i], str(i)) for i, pcoll in enumerate(inputs)))
        else:
            result = self.func(to_dataframe(inputs, self.proxy))
        if isinstance(result, dict):
            return {tag: self._rows(frame, f"Rows[{tag}]") for tag, frame in result.items()}
        if isinstance(result, (tuple, list)):
            return tuple(self._rows(frame, f"Rows[{i}]") for i, frame in enumerate(result))
        return self._rows(result, "Rows")

    def _rows(self, frame: Any, label: str) -> Any:
        return to_pcollection(
            frame, label=label, yield_elements=self.yield_elements, include_indexes=self.include_indexes
        )
