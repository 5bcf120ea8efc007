"""Decoding of keys and values, with errors that name the record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...frozen import frozen
from ...sdk.dofn.dofn import DoFn
from ...sdk.errors import SourceError
from ...sdk.pvalue import DoOutputsTuple, PCollection
from ...transforms.par_do.map_and_filter import Map
from ...transforms.par_do.pardo import ParDo
from .records import KafkaRecord
from .serialization import Decoder


class UndecodableError(SourceError):
    """A key or a value that can't be decoded."""


@frozen
class Decoding:
    """Decodes the key and the value of an element.

    Attributes:
      key, value: None to leave bytes as they are.
    """

    key: Decoder | None
    value: Decoder | None
    label: str

    def record(self, record: KafkaRecord) -> KafkaRecord:
        """Return a record with its key and value decoded.  Raises `UndecodableError`."""
        key, value = self.pair((record.key, record.value, record, record.offset))
        return record._replace(key=key, value=value)

    def pair(self, record: tuple[Any, Any, Any, int]) -> tuple[Any, Any]:
        """Return the pair of a decoded key and value.  Raises `UndecodableError`.

        Args:
          record: key, value, partition and offset.
        """
        key, value, _, _ = record
        try:
            return (
                key if key is None or self.key is None else self.key(key),
                value if value is None or self.value is None else self.value(value),
            )
        except SourceError:
            # Of a schema registry that doesn't answer.
            raise
        except Exception:
            self._explain(record)
            raise

    def _explain(self, record: tuple[Any, Any, Any, int]) -> None:
        key, value, partition, offset = record
        of_record = isinstance(partition, KafkaRecord)
        origin = f"partition {partition.partition} of topic {partition.topic!r}" if of_record else partition
        for what, decode, data in (("key", self.key, key), ("value", self.value, value)):
            if data is None or decode is None:
                continue
            try:
                decode(data)
            except Exception as error:
                raise UndecodableError(
                    f"{self.label}: the {what} at offset {offset} of {origin}, of {len(data)} bytes, can't be decoded "
                    f"({type(error).__name__}: {error}); to go on without such records, use .with_exception_handling()"
                ) from error


def decoded(records: PCollection[Any], decode: Any, element_type: Any, dead_letters: Mapping[str, Any] | None) -> Any:
    """Apply a function, or a DoFn, that decodes elements.

    Args:
      dead_letters: the options of a second output, of pairs and records that can't be decoded; None without it.
    """
    decoding: Any = ParDo(decode) if isinstance(decode, DoFn) else Map(decode)
    decoding = decoding.with_output_types(element_type)
    if dead_letters is None:
        return records | "Decode" >> decoding
    options = {"exc_class": UndecodableError} | dict(dead_letters)
    handler, tag = options.pop("error_handler", None), options.get("dead_letter_tag", "bad")
    main_tag = options.get("main_tag", "good")
    outputs = records | "Decode" >> decoding.with_exception_handling(**options)
    bad = outputs[tag] | "DeadLetters" >> Map(_without_origin)
    if handler is None:
        return DoOutputsTuple({None: outputs[main_tag], tag: bad}, main_tag)
    handler.add_error_pcollection(bad)
    return outputs[main_tag]


def _without_origin(letter: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the dead letter of a pair or a record.  Its error names the partition and offset."""
    element, error = letter
    return (element if isinstance(element, KafkaRecord) else element[:2]), error


def of_pair(fn: Any, record: tuple[Any, Any, Any, int]) -> Any:
    """Return what a function of pairs of key and value returns."""
    return fn(record[:2])
