"""What the formats of a schema registry share: how a transform reads and writes keys or values.

When the pipeline is built, a format becomes a `RegistryReader` with the schema that all records are read with, so that
their fields are known, or a `RegistryWriter`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import attrs

from ....frozen import frozen
from ....sdk.elements.row import Row
from ....sdk.errors import SinkError, SourceError
from ....sdk.typehints.schema import item_of, with_schema
from ...optional_package import optional_package
from ...records import as_dict, is_record
from .client import EXTRA, WAITED_FOR, RegistrySettings, is_unknown, package

# The name of the method of a `SchemaRegistry` for the registry's name of a format.
_METHODS = {"AVRO": "avro", "JSON": "json_schema", "PROTOBUF": "protobuf"}

# Returns what a deserializer returns for keys or values.  Raises an exception if one of them can't be read.
ReaderOfMany: TypeAlias = Callable[[list[bytes]], list[Any]]


@frozen
class RegistryFormat(ABC):
    """A format of keys or values whose schemas are in a registry.

    Attributes:
      registry: the settings of the registry's client.
      schema: the schema as text; None for the latest version of the subject.
      subject: the subject's name; None for the name of the topic, and `-key` or `-value`.
      options: settings of confluent-kafka's serializer or deserializer.
    """

    registry: RegistrySettings
    schema: str | None = attrs.field(default=None, repr=False)
    subject: str | None = None
    options: Mapping[str, Any] = attrs.field(factory=dict, repr=False)

    # The registry's name of the format.
    kind: ClassVar[str]

    @abstractmethod
    def fields(self, schema: Any) -> list[tuple[str, Any]] | None:
        """Return the fields of records with a schema of the client's, as in `Schema`; None if they aren't known."""

    @abstractmethod
    def element_type(self, schema: Any) -> Any:
        """Return the type of elements that aren't records."""

    @abstractmethod
    def deserializer(self, schema: Any, options: Mapping[str, Any]) -> Any:
        """Return the client's deserializer that reads records with a schema."""

    @abstractmethod
    def as_element(self, value: Any, names: tuple[str, ...] | None) -> Any:
        """Return what the deserializer returned as an element.

        Args:
          names: of the fields of a Row; None if they aren't known.
        """

    def reader_of_many(self, reader: RegistryReader, deserialize: Callable[[bytes], Any]) -> ReaderOfMany:
        """Return a function from keys or values to what the deserializer returns for them."""
        return lambda data: list(map(deserialize, data))

    @abstractmethod
    def field_values(self, records: list[Any], name: str) -> list[Any]:
        """Return a field of what the deserializer returned.  Raises an exception for anything that isn't a record."""

    @abstractmethod
    def serializer(self, options: Mapping[str, Any]) -> Any:
        """Return the client's serializer."""

    def register(self, subject: str, serializer: Any, context: Any) -> None:
        """Register the schema, or look it up; with the client's errors."""
        client = self.registry.client()
        if self.schema is None:
            client.get_latest_version(subject)
        elif self.options.get("auto.register.schemas", True):
            client.register_schema(subject, self.given(), bool(self.options.get("normalize.schemas", False)))
        else:
            client.lookup_schema(subject, self.given())

    def as_record(self, value: Any) -> Any:
        """Return an element as the serializer takes it."""
        return plain(value)

    # Of the client's representation of a schema.
    fetched_as: ClassVar[str | None] = None

    def given(self) -> Any:
        """Return the given schema, as the client has schemas."""
        return package("", "SchemaRegistry").Schema(self.schema, self.kind)

    def subject_of(self, topic: str, field: str) -> str:
        return self.subject or f"{topic}-{field}"

    def reader(self, field: str, topics: Sequence[str], label: str) -> RegistryReader:
        """Return the reader of a transform.  Raises `SourceError` if there is no schema.

        Args:
          field: "key" or "value".
        """
        schema = self.given() if self.schema is not None else None
        if schema is None:
            found = {subject: self.latest(subject, label) for subject in self._subjects(topics, field)}
            schema, *others = found.values()
            if any(other.schema_str != schema.schema_str for other in others):
                raise SourceError(
                    f"{label}: the schemas of the subjects {', '.join(map(repr, found))} differ; give the schema to "
                    "read all records with, or read each topic by a transform of its own"
                )
        return RegistryReader(self, field, topics[0], label, schema)

    def latest(self, subject: str, label: str) -> Any:
        """Return the latest version of a subject.  Raises `SourceError` if it isn't there, or has another format."""
        what = f"the schema of subject {subject!r} can't be read"
        client = self.registry.client()
        try:
            found = self.registry.asked(
                what, label, lambda: client.get_latest_version(subject, fmt=self.fetched_as).schema, SourceError
            )
        except package("", label).SchemaRegistryError as error:
            known = f"{what}: the schema registry at {self.registry.url}: {self.registry.shown(error)}"
            advice = "; register it, or give schema=" if is_unknown(error) else ""
            raise SourceError(f"{label}: {known}{advice}") from error
        kind = found.schema_type or "AVRO"
        if kind != self.kind:
            raise SourceError(
                f"{label}: expected subject {subject!r} of the schema registry at {self.registry.url} to have a schema "
                f"of the format {self.kind}, found {kind}; use SchemaRegistry.{_METHODS.get(kind, kind)}()"
            )
        return found

    def _subjects(self, topics: Sequence[str], field: str) -> list[str]:
        return list(dict.fromkeys(self.subject_of(topic, field) for topic in topics))

    def writer(self, field: str, label: str) -> RegistryWriter:
        """Return the writer of a transform."""
        return RegistryWriter(self, field, label)

    def client_options(self, field: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a serializer or a deserializer."""
        names = {"subject.name.strategy": lambda context, _: self.subject_of(context.topic, field)}
        return names | dict(given) | dict(self.options)


@attrs.define
class RegistryReader:
    """Reads keys or values.  Picklable.

    Attributes:
      schema: the client's schema with which all records are read.
      element_type: the type of elements; of Rows, with their fields.
      column_types: of Rows, the fields that columns can hold, by name, with their Arrow types.
    """

    format: RegistryFormat
    field: str
    topic: str
    label: str
    schema: Any = attrs.field(repr=False)
    element_type: Any = attrs.field(init=False, repr=False)
    column_types: dict[str, str] = attrs.field(init=False, repr=False)
    _names: tuple[str, ...] | None = attrs.field(init=False, repr=False)
    _deserialize: Any = attrs.field(init=False, default=None, repr=False)
    _read_many: Any = attrs.field(init=False, default=None, repr=False)
    _context: Any = attrs.field(init=False, default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        try:
            fields = self.format.fields(self.schema)
        except Exception as error:
            raise SourceError(f"{self.label}: the schema of {self.field}s can't be read: {error}") from error
        self._names = None if fields is None else tuple(name for name, _ in fields)
        simple = {name: kind for name, kind in fields or () if isinstance(kind, str) and item_of(kind) is None}
        self.column_types = simple
        self.element_type = self.format.element_type(self.schema) if fields is None else with_schema(Row, fields)

    def __call__(self, data: bytes) -> Any:
        """Return a record's key or value.  Raises the client's errors; `SourceError` if the registry isn't there."""
        self._set_up()
        try:
            value = self._deserialize(data, self._context)
        except Exception:
            # A registry that doesn't answer isn't the record's fault.
            value = self.format.registry.asked(
                f"a {self.field} can't be read",
                self.label,
                lambda: self._deserialize(data, self._context),
                SourceError,
                WAITED_FOR,
            )
        return self.format.as_element(value, self._names)

    @property
    def field_names(self) -> tuple[str, ...] | None:
        """The names of a Row's fields; None for other elements, and unknown fields."""
        return self._names

    def field_values(self, data: list[bytes], names: Sequence[str]) -> list[list[Any]]:
        """Return fields of the Rows for keys or values.

        Raises an exception if one of them can't be read: any exception, and without waiting for the registry.
        """
        self._set_up()
        records = self._read_many(data)
        return [self.format.field_values(records, name) for name in names]

    def _set_up(self) -> None:
        if self._deserialize is None:
            options = self.format.client_options(self.field, {})
            deserialize = self._deserialize = self.format.deserializer(self.schema, options)
            context = self._context = _context(self.topic, self.field)
            self._read_many = self.format.reader_of_many(self, lambda data: deserialize(data, context))

    def __getstate__(self) -> tuple[Any, ...]:
        return self.format, self.field, self.topic, self.label, self.schema

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]


@attrs.define
class RegistryWriter:
    """Writes keys or values.  Picklable."""

    format: RegistryFormat
    field: str
    label: str
    _serialize: Any = attrs.field(init=False, default=None, repr=False)
    _contexts: dict[str, Any] = attrs.field(init=False, factory=dict, repr=False)

    def __call__(self, value: Any, topic: str) -> bytes:
        """Return a key or a value as bytes.  Raises the client's errors; `SinkError` if the registry isn't there."""
        record = self.format.as_record(value)
        serialize, context = self._serializer(), self._context(topic)
        try:
            data: bytes = serialize(record, context)
        except Exception:
            registry = self.format.registry
            what = f"a {self.field} can't be written"
            data = registry.asked(what, self.label, lambda: serialize(record, context), SinkError, WAITED_FOR)
        return data

    def prepare(self, topic: str) -> None:
        """Register the schema for a topic, or look it up.  Raises `SinkError` if the registry refuses it."""
        subject = self.format.subject_of(topic, self.field)
        what = f"the schema of subject {subject!r} can't be registered, or isn't there"
        registry = self.format.registry
        try:
            serializer, context = self._serializer(), self._context(topic)
            registry.asked(what, self.label, lambda: self.format.register(subject, serializer, context), SinkError)
        except SinkError:
            raise
        except Exception as error:
            raise SinkError(
                f"{self.label}: {what}: the schema registry at {registry.url}: {registry.shown(error)}; is the schema "
                "compatible with the subject's earlier versions, or is one registered?"
            ) from error

    def _serializer(self) -> Any:
        if self._serialize is None:
            if self.format.schema is None and self.format.kind != "PROTOBUF":
                given = {"auto.register.schemas": False, "use.latest.version": True}
            else:
                given = {}
            self._serialize = self.format.serializer(self.format.client_options(self.field, given))
        return self._serialize

    def _context(self, topic: str) -> Any:
        if topic not in self._contexts:
            self._contexts[topic] = _context(topic, self.field)
        return self._contexts[topic]

    def __getstate__(self) -> tuple[Any, ...]:
        return self.format, self.field, self.label

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]


def _context(topic: str, field: str) -> Any:
    serialization = optional_package("confluent_kafka.serialization", EXTRA, "SchemaRegistry")
    return serialization.SerializationContext(topic, field)


def plain(value: Any) -> Any:
    """Return a value with a dict in the place of each record in it.

    >>> plain([Row(name="Ada", of=Row(x=1))])
    [{'name': 'Ada', 'of': {'x': 1}}]
    """
    kind = type(value)
    if kind in (str, int, float, bool, bytes) or value is None:
        return value
    if kind is list or kind is tuple:
        return [plain(each) for each in value]
    if is_record(value):
        return {name: plain(each) for name, each in as_dict(value).items()}
    return value


def row_of(fields: dict[str, Any]) -> Row:
    """Return a dictionary as a Row, which keeps it as its fields."""
    row = object.__new__(Row)
    row.__dict__ = fields
    return row
