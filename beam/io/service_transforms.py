"""Reads and writes of services that penstock doesn't have: a pipeline can be built of them, and not run.

Tests of programs build pipelines, and replace what reads and writes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from ...frozen import frozen
from ...sdk import graph
from ...sdk.errors import UnsupportedError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ...sdk.sources.bounded import ValuesSource
from ...sdk.windowing_strategy import DEFAULT_WINDOWING
from ..absent import AbsentMeta, absent, described, path_of


@cache
def service_transform(path: str) -> AbsentMeta | None:
    """Return the transform of Beam at a path without `apache_beam`; None if there is no read or write of a service.

    >>> service_transform("io.jdbc.ReadFromJdbc")
    <apache_beam.io.jdbc.ReadFromJdbc, which penstock doesn't have>
    """
    module, _, name = path.rpartition(".")
    is_transform = re.fullmatch("(Read|ReadAll|ReadStrings|Write|WriteStrings)(From|To)[A-Z]\\w+", name)
    if not module.startswith("io.") or not is_transform or name.endswith(("Request", "Schema")):
        return None
    return ServiceTransformMeta(name, (ServiceTransform,), {"_beam_path": path, "__module__": f"apache_beam.{module}"})


# Modules whose reads are unbounded.
_UNBOUNDED: Final = ("io.external.gcp.pubsub", "io.kafka", "io.kinesis", "io.debezium")


class ServiceTransformMeta(AbsentMeta):
    """The metaclass of the reads and writes of services, which can be called."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return type.__call__(cls, *args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        # Nested classes and constants.
        if not name[0].isupper():
            raise AttributeError(f"{cls.__name__} has no attribute {name!r}")
        return absent(f"{path_of(cls)}.{name}")


class ServiceTransform(PTransform, metaclass=ServiceTransformMeta):
    """A read or write of a service that penstock doesn't have.

    Applied to a pipeline, it takes its place in the graph.  `Pipeline.run` raises `UnsupportedError`.

    Attributes:
      args, kwargs: the arguments that it was given.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.args = args
        self.kwargs = kwargs

    def expand(self, input_or_inputs: Any) -> Any:
        pipeline = input_or_inputs.pipeline
        pipeline.add_check(_Refusal(f"{pipeline.full_label}: {described(type(self))}"))
        path = path_of(type(self))
        if isinstance(input_or_inputs, PCollection):
            return pipeline.add(graph.Flatten(), [input_or_inputs], input_or_inputs.windowing)[None]
        bounded = not path.startswith(_UNBOUNDED)
        return pipeline.add(graph.Read(ValuesSource([])), [], DEFAULT_WINDOWING, is_bounded=bounded)[None]


@frozen
class _Refusal:
    """Raises an error when a pipeline is run."""

    message: str

    def __call__(self) -> None:
        raise UnsupportedError(self.message)
