"""RefreshedSideInput: a side input that is loaded again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from ...sdk.dofn.dofn import DoFn
from ...sdk.metrics import Metrics
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.redaction import logger_of
from ...sdk.userstate import ReadModifyWriteStateSpec
from ...triggers import AccumulationMode, AfterCount, Repeatedly
from ...windowing import GlobalWindows
from ...windowing.duration import micros_of_span
from ...windowing.timestamp import MAX_MICROS
from ..assign_windows import WindowInto
from ..group_by_key import GroupByKey
from ..groups.keys import WithKeys
from ..par_do.map_and_filter import FlatMap
from ..par_do.pardo import ParDo
from .periodic_sequence import ImpulseSource, PeriodicImpulse

_logger = logger_of(__name__)


class RefreshedSideInput(PTransform):
    """The content of a side input, which is loaded when a stream starts, and then at intervals.

    Returns a `PCollection[T]` of the elements of the content that `load` returns.

    Elements wait for the first content only.  After that each sees the newest one, of any window, and as a whole: a
    content is never mixed with the one before it.  All views are possible:

    ```
    AsSingleton         what `load` has returned
    AsList, AsIter      its elements
    AsDict, AsMultiMap  its pairs, or the items of a dictionary
    ```

    If the first load fails, the run fails.  If a later one fails, the former content stays, a warning is logged, and
    the counter `failed_loads` is increased.  A restart from a checkpoint goes on with the last content.  A pipeline
    with this transform is a stream, and ends when it is stopped.

    While `load` runs its worker does nothing else, and a checkpoint waits for it.  Loads that are due meanwhile are
    left out, and of those that were due while a stream was down all but one.

    Args:
      load: a function without arguments that returns the content.  One worker calls it.
      every: the interval between two loads: seconds, or a span of time.

    Raises `ValueError` if the interval isn't more than 0.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> prices = p | beam.RefreshedSideInput(lambda: {"tea": 3}, every=60)
    >>> orders = p | beam.io.GenerateSequence(0, None, 1, 1) | beam.Map(lambda n: "tea")
    >>> priced = orders | "Price" >> beam.Map(lambda item, price: price[item], beam.pvalue.AsDict(prices))
    """

    def __init__(self, load: Callable[[], Any], every: Any = 60) -> None:
        super().__init__()
        if not callable(load):
            raise TypeError(f"RefreshedSideInput: load must be a function, got {load!r}")
        if micros_of_span(every) <= 0:
            raise ValueError(f"RefreshedSideInput: every must be more than 0 seconds, got {every!r}")
        self.load = load
        self.every = every

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        label = pbegin.pipeline.full_label
        impulse = PeriodicImpulse(fire_interval=self.every)
        # After a stream was down, one load stands for all that were due meanwhile.
        impulse.source = ImpulseSource(None, MAX_MICROS, self.every, None, newest_only=True)
        times = pbegin | "Times" >> impulse | WithKeys(None)
        windowing = WindowInto(
            GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.DISCARDING
        )
        contents = times | "Load" >> ParDo(_Load(self.load, label)) | windowing | GroupByKey()
        loaded: PCollection[Any] = contents | "Contents" >> FlatMap(_newest)
        loaded.has_contents = True
        return loaded


def _newest(pair: tuple[None, Any]) -> list[Any]:
    return list(pair[1])[-1:]


class _Load(DoFn):
    # The due time of the last load and the seconds it took, added; None before the first one.
    LOADED = ReadModifyWriteStateSpec("has loaded")

    def __init__(self, load: Callable[[], Any], label: str) -> None:
        self.load = load
        self.label = label
        self.failed = Metrics.counter("RefreshedSideInput", "failed_loads")

    def process(self, pair: tuple[None, Any], loaded: Any = DoFn.StateParam(LOADED)) -> Iterator[tuple[None, Any]]:
        # If the impulses that were due during a load made loads, too, these would have no pause, and each barrier would
        # wait behind more of them.
        _, due = pair
        ended = loaded.read()
        if ended is not None and due <= ended:
            return
        began = time.monotonic()
        try:
            content = self.load()
            if isinstance(content, Iterator):
                content = list(content)
        except Exception:
            if ended is None:
                raise
            self.failed.inc()
            _logger.warning("%s: the load failed; the former content stays", self.label, exc_info=True)
            loaded.write(due + time.monotonic() - began)
            return
        loaded.write(due + time.monotonic() - began)
        yield None, content
