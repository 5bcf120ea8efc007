"""FromDebezium: the envelopes of Debezium as rows that are added and retracted."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ...sdk.coders.coder import shortened
from ...sdk.dofn.dofn import DoFn
from ...sdk.elements.row import Row
from ...sdk.errors import SourceError
from ...sdk.process.task_name import worker_id
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ...sdk.type_variables import RowT
from ...sdk.typehints.describe import describe
from ...transforms.par_do.map_and_filter import Map
from ...transforms.par_do.pardo import ParDo
from ...windowing.timestamp import Timestamp
from ..kafka.records import KafkaRecord
from ..record_types import Maker, hint_of_type
from .logical_types import Converter, converters_of
from .row_change import LatestRows, RowChange, SignedRows
from .sequenced_rows import LatestSequencedRows, SequencedChange, sequence_of
from .unavailable_value import DEFAULT_PLACEHOLDER, UnavailableValue

# The fields with the time of an envelope, the most exact first, with the multiple and the divisor for microseconds.
_TIMES = (("ts_ns", 1, 1000), ("ts_us", 1, 1), ("ts_ms", 1000, 1))

# How each database logs whole rows.
_WHOLE_ROWS = {
    "postgresql": "ALTER TABLE {table} REPLICA IDENTITY FULL",
    "mysql": "SET GLOBAL binlog_row_image = 'FULL'",
    "mariadb": "SET GLOBAL binlog_row_image = 'FULL'",
    "mongodb": "capture.mode=change_streams_update_full_with_pre_image in the connector",
    "oracle": "ALTER TABLE {table} ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS",
}


class _Wrapped(msgspec.Struct):
    """A message with its schema."""

    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class FromDebezium(PTransform[PCollection[Any], PCollection[RowT]]):
    """The rows of a changing table: each is an element from its insert on, and is retracted by its update or delete.

    Returns a `PCollection[Row]`, or of instances of `type`.

    So a pipeline behind it maintains its results as a database maintains a view.  An element of the input is an
    envelope: bytes or text with JSON, a dict or a Row, with or without `schema` and `payload`; or a pair of a key and
    an envelope, as `ReadFromKafka` gives them; or a `KafkaRecord`.

    Creates and snapshot reads add a row, updates retract the former row and add the new one, and deletes retract it.
    Tombstones, logical messages, heartbeats, schema changes and transactions' begin and end become nothing.  A truncate
    is an error, since it doesn't name the rows that it removes.

    The event time of a change is that of its commit: `ts_ns`, `ts_us` or `ts_ms` of its `source`; without them those of
    the envelope; without them that of the element.  Both rows of an update have it.

    Args:
      type: a NamedTuple, dataclass, attrs class or `msgspec.Struct` that rows are decoded to.  Its fields are known
        when the pipeline is built.  Without it rows are `Row`s.
      table: takes changes of this table only, such as 'public.orders'.
      key: the field or fields of the primary key.  Then the latest row of each key is kept in state, so that updates
        and deletes need no former row, and what Debezium sends twice has no effect.
      timestamp_fn: a function from a row to its event time.  A row is then retracted at the time at which it was added,
        as windows need it that aren't global.
      unavailable_value: the connector's `unavailable.value.placeholder`, which stands for a value that didn't change.

    Raises `ValueError` for a placeholder that can't be one.  Raises `SourceError` for an update or delete without the
    former row, if there is no `key`; and for an element that isn't an envelope, or a row that doesn't fit `type`.
    `with_exception_handling` makes dead letters of these.

    >>> import penstock as beam
    >>> envelopes = [
    ...     {"op": "c", "before": None, "after": {"id": 1, "price": 3}, "source": {"ts_ms": 1000}},
    ...     {"op": "u", "before": {"id": 1, "price": 3}, "after": {"id": 1, "price": 5}, "source": {"ts_ms": 2000}},
    ... ]
    >>> with beam.Pipeline() as p:
    ...     rows = p | beam.Create(envelopes) | beam.io.FromDebezium()
    ...     _ = rows | beam.Map(lambda row, sign=beam.DoFn.SignParam: print(f"{sign:+d} {row}"))
    +1 Row(id=1, price=3)
    -1 Row(id=1, price=3)
    +1 Row(id=1, price=5)
    """

    def __init__(
        self,
        type: type[RowT] | None = None,
        *,
        table: str | None = None,
        key: str | Sequence[str] | None = None,
        timestamp_fn: Callable[[Any], Any] | None = None,
        unavailable_value: str = DEFAULT_PLACEHOLDER,
    ) -> None:
        super().__init__()
        name = self.__class__.__name__
        try:
            self.unavailable = UnavailableValue(unavailable_value)
        except ValueError as error:
            raise ValueError(f"{name}: unavailable_value: {error}") from None
        try:
            Maker(type)
        except (TypeError, NameError) as error:
            raise TypeError(f"{name}: rows can't have the type {describe(type)}: {error}") from None
        if timestamp_fn is not None and not callable(timestamp_fn):
            raise TypeError(
                f"{name}: timestamp_fn must be a function from a row to its event time, got {timestamp_fn!r}"
            )
        self.type = type
        self.table = table
        self.key = None if key is None else (key,) if isinstance(key, str) else tuple(key)
        if self.key is not None and not (self.key and all(isinstance(each, str) for each in self.key)):
            raise TypeError(f"{name}: key must be the name of a field, or several names, got {key!r}")
        self.timestamp_fn = timestamp_fn
        self._dead_letters: Mapping[str, Any] | None = None

    def with_exception_handling(
        self, **options: Any
    ) -> PTransform[PCollection[Any], tuple[PCollection[RowT], PCollection[Any]]]:
        """Return the transform with a second output, of the elements that can't be decoded.

        Args:
          options: as those of `ParDo.with_exception_handling`.

        >>> import penstock as beam
        >>> with beam.Pipeline() as p:
        ...     rows, bad = p | beam.Create([b"{"]) | beam.io.FromDebezium().with_exception_handling()
        ...     _ = bad | beam.MapTuple(lambda element, error: print(element))
        b'{'
        """
        transform: Any = copy.copy(self)
        transform._dead_letters = options
        return transform  # type: ignore[no-any-return]

    def expand(self, pcoll: PCollection[Any]) -> Any:
        # Of a bounded input several workers may read parts, and later changes may reach the state of a key first.
        is_sequenced = self.key is not None and pcoll.is_bounded
        decoding: Any = ParDo(Envelopes(pcoll.pipeline.full_label, self, is_sequenced)).with_output_types(
            SequencedChange if is_sequenced else RowChange
        )
        if self._dead_letters is None:
            return self._rows(pcoll | "Decode" >> decoding)
        changes, refused = pcoll | "Decode" >> decoding.with_exception_handling(**self._dead_letters)
        return self._rows(changes), refused

    def _rows(self, changes: PCollection[Any]) -> Any:
        hint = Row if self.type is None else hint_of_type(self.type)
        if self.key is None:
            return changes | "Sign" >> ParDo(SignedRows()).with_output_types(hint)
        names = self.key
        times = None if self.timestamp_fn is None else Times(self.timestamp_fn)
        if changes.is_bounded:
            pairs = changes | "Key" >> Map(lambda change: (tuple(change.change.row[name] for name in names), change))
            return pairs | "Latest" >> ParDo(LatestSequencedRows(Maker(self.type), times)).with_output_types(hint)
        keyed = changes | "Key" >> Map(lambda change: (tuple(change.row[name] for name in names), change))
        return keyed | "Latest" >> ParDo(LatestRows(Maker(self.type), times)).with_output_types(hint)

    @staticmethod
    def event_time(element: Any) -> Timestamp | None:
        """Return the event time of an element of the input, for `ReadFromKafka(timestamp_fn=...)`; None without one.

        >>> FromDebezium.event_time((None, b'{"op": "c", "after": {}, "source": {"ts_us": 5000001}}'))
        Timestamp(5.000001)
        """
        envelope, _ = _envelope_of(_message_of(element))
        micros = None if envelope is None else _micros_of(envelope)
        return None if micros is None else Timestamp.of_micros(micros)

    def default_label(self) -> str:
        return "FromDebezium"

    def display_data(self) -> dict[str, Any]:
        given = {"table": self.table, "key": None if self.key is None else ", ".join(self.key)}
        return {name: value for name, value in given.items() if value is not None}


class Times:
    """A function from a row to its event time in microseconds, by a user's function."""

    def __init__(self, timestamp_fn: Callable[[Any], Any]) -> None:
        self.timestamp_fn = timestamp_fn

    def __call__(self, row: Any) -> int:
        return Timestamp.of(self.timestamp_fn(row)).micros


class Envelopes(DoFn):
    """The changes of an element of the input.

    Args:
      is_sequenced: True for `SequencedChange`s, False for `RowChange`s.
    """

    def __init__(self, label: str, options: FromDebezium[Any], is_sequenced: bool = False) -> None:
        self.label = label
        self.is_sequenced = is_sequenced
        self.table = options.table
        self.key = options.key
        self.made = Maker(options.type)
        self.times = None if options.timestamp_fn is None else Times(options.timestamp_fn)
        self.unavailable = options.unavailable
        # By the text of a schema, the converters of the former and of the new row.
        self._converters: dict[bytes, dict[str, Converter]] = {}

    def setup(self) -> None:
        self.reader = worker_id()
        self.read = 0

    def process(self, element: Any) -> Iterator[RowChange | SequencedChange]:
        try:
            envelope, schema = _envelope_of(_message_of(element))
        except (ValueError, TypeError) as error:
            raise SourceError(f"{self.label}: {error}") from error
        if envelope is None or "op" not in envelope:
            self._check_other(envelope)
            return
        op, source = envelope["op"], envelope.get("source") or {}
        if self.table is not None and self.table not in _names_of(source):
            return
        if op == "m":
            return
        if op not in ("c", "r", "u", "d"):
            raise SourceError(f"{self.label}: {_unknown_operation(op, source)}")
        before, after = envelope.get("before"), envelope.get("after")
        if op != "d" and not isinstance(after, dict):
            raise SourceError(f"{self.label}: expected the new row in 'after' of {shortened(envelope)}, found none")
        before = before if op in ("u", "d") else None
        after = after if op != "d" else None
        after, missing = _completed(before, after, self.unavailable)
        converters = self._converters_of(schema)
        micros = _micros_of(envelope)
        if self.key is None:
            yield from self._changes(op, before, after, missing, converters, micros, source)
        else:
            change = self._keyed(before, after, missing, converters, micros, source)
            if not self.is_sequenced:
                yield change
                return
            self.read += 1
            yield SequencedChange(change, sequence_of(source), self.reader, self.read)

    def _changes(
        self,
        op: str,
        before: Any,
        after: Any,
        missing: tuple[str, ...],
        converters: dict[str, Converter],
        micros: int | None,
        source: Mapping[str, Any],
    ) -> Iterator[RowChange]:
        if op in ("u", "d") and before is None:
            what = "an update" if op == "u" else "a delete"
            raise SourceError(
                f"{self.label}: {what} of {_shown(source)} came without its former row; {_advice(source)}"
            )
        if missing:
            raise SourceError(
                f"{self.label}: an update of {_shown(source)} came without the unchanged "
                f"{', '.join(map(repr, missing))}; {_advice(source)}"
            )
        for sign, fields in ((-1, before), (+1, after)):
            if fields is not None:
                row = self._made(_converted(fields, converters, self.label))
                yield RowChange(sign, row, micros if self.times is None else self.times(row))

    def _keyed(
        self,
        before: Any,
        after: Any,
        missing: tuple[str, ...],
        converters: dict[str, Converter],
        micros: int | None,
        source: Mapping[str, Any],
    ) -> RowChange:
        assert self.key is not None
        fields = before if after is None else after
        absent = [name for name in self.key if fields is None or fields.get(name) is None]
        if absent:
            raise SourceError(
                f"{self.label}: a change of {_shown(source)} has no value for {', '.join(map(repr, absent))} of the "
                f"key; found {shortened(fields)}"
            )
        if before is not None and after is not None and any(before.get(n, after[n]) != after[n] for n in self.key):
            raise SourceError(
                f"{self.label}: an update of {_shown(source)} changed the key {', '.join(map(repr, self.key))}; "
                "Debezium sends a delete and a create when a primary key changes, so name the whole primary key in "
                "`key`"
            )
        row = _converted(fields, {n: c for n, c in converters.items() if n not in missing}, self.label)
        if after is not None and not missing:
            self._made(dict(row))
        return RowChange(-1 if after is None else +1, row, micros, missing=missing)

    def _made(self, fields: dict[str, Any]) -> Any:
        try:
            return self.made(fields)
        except msgspec.ValidationError as error:
            raise SourceError(
                f"{self.label}: a row is not of the type {describe(self.made.type)}: {error}: {shortened(fields)}"
            ) from error

    def _converters_of(self, schema: Any) -> dict[str, Converter]:
        if schema is None:
            return {}
        text = bytes(schema) if isinstance(schema, msgspec.Raw) else None
        if text is not None and text in self._converters:
            return self._converters[text]
        decoded = schema if text is None else msgspec.json.decode(text)
        found: dict[str, Converter] = {}
        for field in (decoded or {}).get("fields") or ():
            if field.get("field") in ("before", "after"):
                found |= converters_of(field)
        if text is not None:
            self._converters[text] = found
        return found

    def _check_other(self, message: Mapping[str, Any] | None) -> None:
        """Raise `SourceError` for a message that is none of those that become nothing."""
        if message is None or "ddl" in message or "tableChanges" in message:
            return
        if message.get("status") in ("BEGIN", "END") and "id" in message:
            return
        if "ts_ms" in message and set(message) <= {"ts_ms", "ts_us", "ts_ns"}:
            return
        raise SourceError(
            f"{self.label}: expected an envelope of Debezium, with 'op', 'before' and 'after', got "
            f"{shortened(message)}; if the connector has the transform ExtractNewRecordState, remove it"
        )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_converters": {}}


def _message_of(element: Any) -> Any:
    """Return the message of an element: the value of a record or of a pair, or the element."""
    if isinstance(element, KafkaRecord):
        return element.value
    if type(element) is tuple and len(element) == 2:
        return element[1]
    if isinstance(element, Row) and {"key", "value"} <= set(element._fields):
        # Of Spark's source for Kafka.
        return element.value
    return element


def _envelope_of(message: Any) -> tuple[dict[str, Any] | None, Any]:
    """Return an envelope and its schema, each None if there is none."""
    if message is None:
        return None, None
    if isinstance(message, (bytes, bytearray, str)):
        try:
            wrapped = _decode_wrapped(message)
            if isinstance(wrapped.payload, msgspec.Raw):
                schema = wrapped.schema if isinstance(wrapped.schema, msgspec.Raw) else None
                return _dict_or_none(msgspec.json.decode(wrapped.payload), message), schema
            return _dict_or_none(msgspec.json.decode(message), message), None
        except msgspec.ValidationError:
            raise TypeError(_not_an_envelope(message)) from None
        except msgspec.DecodeError as error:
            raise ValueError(f"expected an envelope as JSON, got {shortened(message)}: {error}") from error
    if isinstance(message, Row):
        # Of Avro, by ReadFromKafka or ReadFromAvro.
        message = message._asdict()
    if isinstance(message, dict):
        if "payload" in message and "op" not in message:
            return _dict_or_none(message["payload"], message), message.get("schema")
        return message, None
    raise TypeError(_not_an_envelope(message))


_decode_wrapped = msgspec.json.Decoder(_Wrapped).decode


def _dict_or_none(value: Any, message: Any) -> dict[str, Any] | None:
    if value is None or isinstance(value, dict):
        return value
    raise TypeError(_not_an_envelope(message))


def _not_an_envelope(message: Any) -> str:
    return (
        "expected an envelope of Debezium as bytes, text, a dict or a Row, or a pair of a key and an envelope, got "
        f"{shortened(message)} of type {type(message).__name__}"
    )


def _micros_of(envelope: Mapping[str, Any]) -> int | None:
    for times in (envelope.get("source"), envelope):
        for name, multiple, divisor in _TIMES:
            time = (times or {}).get(name)
            if time:
                return int(time) * multiple // divisor
    return None


def _names_of(source: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a change's table: alone, with its schema, with its database, and with both."""
    parts = [str(source[part]) for part in ("db", "schema") if source.get(part)]
    table = str(source.get("table") or source.get("collection") or "")
    return (table, *(".".join([*parts[i:], table]) for i in range(len(parts))), f"{source.get('db')}.{table}")


def _shown(source: Mapping[str, Any]) -> str:
    parts = [str(source[part]) for part in ("schema", "table") if source.get(part)]
    return f"table {'.'.join(parts)!r}" if parts else "a table"


def _advice(source: Mapping[str, Any]) -> str:
    table = ".".join(str(source[part]) for part in ("schema", "table") if source.get(part)) or "..."
    how = _WHOLE_ROWS.get(str(source.get("connector")), "whole rows in the database's log").format(table=table)
    return f"have the database log whole rows ({how}), or keep the rows in state by naming the primary key in `key`"


def _unknown_operation(op: Any, source: Mapping[str, Any]) -> str:
    if op == "t":
        return (
            f"{_shown(source)} was truncated, and a truncate doesn't name the rows that it removes; use DELETE, or let "
            "the connector skip truncates (skipped.operations=t), after which the results keep these rows"
        )
    return f"expected an operation 'c', 'r', 'u', 'd' or 'm', got {op!r}"


def _completed(before: Any, after: Any, unavailable: UnavailableValue) -> tuple[Any, tuple[str, ...]]:
    """Return the new row completed by the former one, and the names of fields that neither has a value for."""
    absent = [name for name, value in (after or {}).items() if unavailable.is_it(value)]
    known = [name for name in absent if name in (before or {}) and not unavailable.is_it(before[name])]
    if known:
        after = after | {name: before[name] for name in known}
    return after, tuple(name for name in absent if name not in known)


def _converted(fields: dict[str, Any], converters: Mapping[str, Converter], label: str) -> dict[str, Any]:
    if not converters:
        return fields
    converted = dict(fields)
    for name, convert in converters.items():
        if name in converted:
            try:
                converted[name] = convert(converted[name])
            except (ValueError, TypeError, OverflowError, ArithmeticError, LookupError) as error:
                raise SourceError(
                    f"{label}: field {name!r} has the value {shortened(converted[name])}, which isn't one of the type "
                    f"in the envelope's schema: {error}"
                ) from error
    return converted
