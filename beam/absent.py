"""Names of Beam that penstock doesn't have: importable, and an error when used.

A program may import them, name them in annotations and defaults, and subclass them.  A call of one, or of a subclass,
raises `UnsupportedError` with what to use instead.
"""

from __future__ import annotations

from abc import ABCMeta
from functools import cache
from typing import Any, Final, NoReturn

from ..sdk.errors import UnsupportedError

_FILES = "paths go through fsspec: with its package for that storage installed ({}), every file transform takes them"
_OWN_CLIENT = "call the service's client in a DoFn that creates it in setup(), after BatchElements for batched calls"
_INTERNAL = "it belongs to the internals of Beam, which penstock doesn't share"

# What to use instead, by the beginning of the path; the longest one counts.
INSTEAD: Final[dict[str, str]] = {
    "coders": _INTERNAL,
    "dataframe": "see docs/dataframes.md for what is supported",
    "examples": "install apache-beam, whose examples then run on penstock; or run a copy of the example",
    "internal": _INTERNAL,
    "io.aws": _FILES.format("s3fs for s3://"),
    "io.azure": _FILES.format("adlfs for abfs://"),
    "io.debezium": "read PostgreSQL by beam.io.ReadFromPostgresChanges; or let Debezium write changes to Kafka, and "
    "read them by beam.io.ReadFromKafka and beam.io.FromDebezium",
    "io.external": "cross-language transforms need Java; write the source as a beam.io.UnboundedSource in Python",
    "io.flink": "read with a beam.io.UnboundedSource, such as beam.io.GenerateSequence",
    "io.gcp": _OWN_CLIENT,
    "io.gcp.bigquery": "use beam.io.ReadFromBigQuery and beam.io.WriteToBigQuery",
    "io.hadoopfilesystem": _FILES.format("pyarrow for hdfs://"),
    "io.jdbc": "use beam.io.ReadFromSQL and beam.io.WriteToSQL",
    "io.kafka": "use beam.io.ReadFromKafka and beam.io.WriteToKafka, which need no Java",
    "io.kinesis": "read with a beam.io.UnboundedSource around the client",
    "io.mongodbio": _OWN_CLIENT,
    "io.requestresponse": _OWN_CLIENT,
    "io.snowflake": "use beam.io.ReadFromSQL and beam.io.WriteToSQL",
    "metrics": "use beam.metrics.Metrics, and result.metrics().query()",
    "ml": "load the model in a DoFn's setup(), and call it on batches: BatchElements, or process_batch",
    "portability": _INTERNAL,
    "runners": "choose penstock's runner by --runner=local, spark-batch or spark-microbatch",
    "runners.interactive": "beam.runners.interactive.interactive_beam has show, collect and watch",
    "runners.worker": _INTERNAL,
    "testing": "use beam.testing.TestPipeline, TestStream and assert_that",
    "tools": _INTERNAL,
    "transforms.enrichment": _OWN_CLIENT,
    "transforms.external": "cross-language transforms need Java; write the transform in Python",
    "transforms.xlang": "cross-language transforms need Java; write the transform in Python",
    "typehints": "use penstock.typehints, or the types of Python's typing",
    "utils": _INTERNAL,
    "utils.secret": "create the key in Google Cloud's Secret Manager, and name it by GcpSecret",
    "yaml": "write the pipeline in Python",
}


def instead_of(path: str) -> str:
    """Return what to use instead of something of Beam, by its path; "" if nothing is known.

    >>> instead_of("io.jdbc.ReadFromJdbc")
    'use beam.io.ReadFromSQL and beam.io.WriteToSQL'
    """
    if path.rpartition(".")[2].startswith("_"):
        return _INTERNAL
    area = max((area for area in INSTEAD if path.startswith(area)), key=len, default="")
    return INSTEAD.get(area, "")


class AbsentMeta(ABCMeta):
    """The metaclass of absent names, for which subclassing is fine and calls are errors."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(described(cls))

    def __getattr__(cls, name: str) -> Any:
        # Of a subclass as well: it may inherit its methods.
        if name.startswith("_"):
            raise AttributeError(name)
        return absent(f"{path_of(cls)}.{name}")

    @property
    def __test__(cls) -> bool:
        """False for `TestClock` and the like, which pytest doesn't collect then.  A subclass has no such attribute."""
        if "_beam_path" in vars(cls):
            return False
        raise AttributeError("__test__")

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __rrshift__(cls, label: Any) -> NoReturn:
        raise UnsupportedError(described(cls))

    def __iter__(cls) -> NoReturn:
        raise UnsupportedError(described(cls))

    def __repr__(cls) -> str:
        if "_beam_path" not in vars(cls):
            return super().__repr__()
        return f"<apache_beam.{path_of(cls)}, which penstock doesn't have>"


def path_of(cls: type) -> str:
    found: str = next(vars(base)["_beam_path"] for base in cls.__mro__ if "_beam_path" in vars(base))
    return found


def described(cls: AbsentMeta) -> str:
    """Return the message for an absent name: what it is, and what to use instead."""
    name = path_of(cls)
    user = "" if "_beam_path" in vars(cls) else f" (the base of {cls.__module__}.{cls.__qualname__})"
    advice = instead_of(name)
    return f"apache_beam.{name}{user}: penstock doesn't have it{advice and '; ' + advice}"


@cache
def absent(path: str) -> AbsentMeta:
    """Return the class that stands for a name of Beam, given by its path without `apache_beam`.

    >>> absent("yaml.yaml_transform.YamlTransform")("type: Create")
    Traceback (most recent call last):
    penstock.sdk.errors.UnsupportedError: apache_beam.yaml.yaml_transform.YamlTransform: penstock doesn't have it; \
write the pipeline in Python
    """
    name = path.rpartition(".")[2]
    # Programs name it in `except`.
    bases: tuple[type, ...] = (Exception,) if name.endswith(("Error", "Exception")) else ()
    return AbsentMeta(name, bases, {"_beam_path": path, "__module__": f"apache_beam.{path.rpartition('.')[0]}"})
