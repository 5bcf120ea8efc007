"""Beam's `managed` transforms: reads and writes by the name of a system, and a dict of its settings.

Those of systems that penstock reads and writes natively are made of its transforms, and need no Java.

>>> import penstock as beam
>>> table = {"table": "shop.sales", "catalog_properties": {"warehouse": "lake"}, "keep": ["item"]}
>>> Read(ICEBERG, config=table).transform
<ReadFromIceberg(PTransform) label=[ReadFromIceberg]>
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from ...sdk.elements.row import Row, fields_of
from ...sdk.errors import UnsupportedError
from ...sdk.ptransform import PTransform
from ...sdk.typehints.arrow_schema import declared_schema
from ...transforms import FlatMap, Map

ICEBERG = "iceberg"
KAFKA = "kafka"
BIGQUERY = "bigquery"
POSTGRES = "postgres"
MYSQL = "mysql"
SQL_SERVER = "sqlserver"
DELTA = "delta"

_PACKAGE = __name__.partition(".")[0]


class _Managed(PTransform):
    """A transform of a system, by the system's name and settings.

    Attributes:
      transform: the transform that reads or writes.

    Raises `UnsupportedError` for a system that penstock doesn't have, and `ValueError` for a setting that it doesn't
    have, or that is missing.
    """

    _verb = ""
    _made: Mapping[str, Callable[[_Settings], PTransform]] = {}

    def __init__(
        self,
        system: str,
        config: Mapping[str, Any] | None = None,
        config_url: str | None = None,
        expansion_service: Any = None,
    ) -> None:
        super().__init__()
        name = f"managed.{type(self).__name__}({system!r})"
        make = self._made.get(system.lower())
        if make is None:
            raise UnsupportedError(f"{name}: penstock {self._verb} {', '.join(self.systems())} natively")
        if (config is None) == (config_url is None):
            raise ValueError(f"{name}: expected either config or config_url")
        settings = _Settings(name, dict(config) if config is not None else _of_file(name, str(config_url)))
        self.transform = make(settings)
        settings.check_empty()

    @classmethod
    def systems(cls) -> list[str]:
        """Return the names of the systems that penstock has."""
        return sorted(cls._made)

    @classmethod
    def has(cls, system: str) -> bool:
        """Return True for the name of a system that penstock has."""
        return system.lower() in cls._made

    def expand(self, input: Any) -> Any:
        return input | self.transform


class _Settings:
    """The settings of a managed transform, each of which is taken once."""

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        self.name = name
        self._values = values
        self._known: list[str] = []

    def take(self, key: str, default: Any = None) -> Any:
        """Return a setting, or the default if it isn't given."""
        self._known.append(key)
        return self._values.pop(key, default)

    def require(self, key: str) -> Any:
        """Return a setting.  Raises `ValueError` if it isn't given."""
        if key not in self._values:
            raise ValueError(f"{self.name}: the setting {key!r} is missing")
        return self.take(key)

    def given(self, **keys: str) -> dict[str, Any]:
        """Return those of some settings that are given, by penstock's names for them."""
        found = {own: self.take(key) for own, key in keys.items()}
        return {own: value for own, value in found.items() if value is not None}

    def check_empty(self) -> None:
        """Raise `ValueError` for a setting that nothing has taken."""
        if self._values:
            unknown, known = next(iter(self._values)), ", ".join(self._known)
            raise ValueError(f"{self.name}: there is no setting {unknown!r} here; there are {known}")


def _of_file(name: str, url: str) -> dict[str, Any]:
    """Return the settings in a file of YAML, of which JSON is a part."""
    with import_module("fsspec").open(url, "rt") as file:
        text = file.read()
    try:
        found = json.loads(text)
    except ValueError:
        try:
            yaml = import_module("yaml")
        except ImportError:
            raise ValueError(f"{name}: {url} isn't JSON; to read YAML, install PyYAML") from None
        found = yaml.safe_load(text)
    if not isinstance(found, dict):
        raise ValueError(f"{name}: {url}: expected a mapping of settings, got {type(found).__name__}")
    return found


def _io(name: str) -> Any:
    return getattr(import_module(f"{_PACKAGE}.io"), name)


def _catalog(settings: _Settings) -> dict[str, Any]:
    # Hadoop's settings, which Beam has apart from the catalog's.
    given = settings.given(catalog_name="catalog_name", catalog_properties="catalog_properties")
    if (hadoop := settings.take("config_properties")) is not None:
        raise ValueError(f"{settings.name}: config_properties are Hadoop's, which penstock doesn't use; got {hadoop!r}")
    return given


def _read_iceberg(settings: _Settings) -> PTransform:
    columns = settings.given(filter="filter", keep="keep", drop="drop", streaming="streaming")
    columns |= settings.given(from_snapshot="from_snapshot", poll_interval_seconds="poll_interval_seconds")
    return _io("ReadFromIceberg")(settings.require("table"), **_catalog(settings), **columns)  # type: ignore[no-any-return]


def _write_iceberg(settings: _Settings) -> PTransform:
    given = settings.given(partition_fields="partition_fields", table_properties="table_properties")
    # Results of a stream are published with its checkpoints.
    settings.take("triggering_frequency_seconds")
    settings.take("direct_write_byte_limit")
    return _io("WriteToIceberg")(settings.require("table"), **_catalog(settings), **given)  # type: ignore[no-any-return]


def _read_delta(settings: _Settings) -> PTransform:
    given = settings.given(version="version", timestamp="timestamp")
    return _io("ReadFromDelta")(settings.require("table"), **given)  # type: ignore[no-any-return]


def _payload(value: bytes) -> Row:
    return Row(payload=value)


def _text_payload(value: bytes) -> Row:
    return Row(payload=value.decode())


def _json_row(value: bytes) -> Row:
    return Row(**json.loads(value))


_READ_FORMATS = {"RAW": _payload, "STRING": _text_payload, "JSON": _json_row}


def _value_of_record(record: Any) -> list[Any]:
    # A tombstone has no fields.
    return [] if record[1] is None else [record[1]]


def _read_kafka(settings: _Settings) -> PTransform:
    config = {"bootstrap.servers": settings.require("bootstrap_servers"), "auto.offset.reset": "latest"}
    config |= settings.take("consumer_config_updates") or {}
    if (reset := settings.take("auto_offset_reset_config")) is not None:
        config["auto.offset.reset"] = reset
    kind = str(settings.take("format", "RAW")).upper()
    # Beam has a type of rows of it; penstock's have the fields that a record has.
    settings.take("schema")
    make = _READ_FORMATS.get(kind)
    if make is None:
        raise UnsupportedError(
            f"{settings.name}: format {kind}: penstock has {', '.join(_READ_FORMATS)} here; use "
            "beam.io.ReadFromKafka with value_deserializer= for others"
        )
    limit = settings.given(max_read_time="max_read_time_seconds")
    read = _io("ReadFromKafka")(config, [settings.require("topic")], **limit)
    return _Chain(read, FlatMap(_value_of_record), Map(make))


def _bytes_of_row(row: Any) -> tuple[None, bytes]:
    (value,) = _fields(row).values()
    return None, value


def _text_of_row(row: Any) -> tuple[None, bytes]:
    (value,) = _fields(row).values()
    return None, value.encode()


def _json_of_row(row: Any) -> tuple[None, bytes]:
    return None, json.dumps(_fields(row)).encode()


def _fields(row: Any) -> Mapping[str, Any]:
    found = row if isinstance(row, Mapping) else fields_of(row)
    if found is None:
        raise TypeError(f"expected a row, got {row!r}")
    return found


_WRITE_FORMATS = {"RAW": _bytes_of_row, "STRING": _text_of_row, "JSON": _json_of_row}


def _write_kafka(settings: _Settings) -> PTransform:
    config = {"bootstrap.servers": settings.require("bootstrap_servers")}
    config |= settings.take("producer_config_updates") or {}
    kind = str(settings.require("format")).upper()
    settings.take("schema")
    make = _WRITE_FORMATS.get(kind)
    if make is None:
        raise UnsupportedError(
            f"{settings.name}: format {kind}: penstock has {', '.join(_WRITE_FORMATS)} here; use "
            "beam.io.WriteToKafka with value_serializer= for others"
        )
    return _Chain(Map(make), _io("WriteToKafka")(config, settings.require("topic")))


def _read_bigquery(settings: _Settings) -> PTransform:
    given = settings.given(
        table="table", query="query", row_restriction="row_restriction", selected_fields="fields", kms_key="kms_key"
    )
    if "query" in given:
        return _Chain(_io("ReadFromBigQuery")(use_standard_sql=True, **given), Map(_row_of_dict))
    return _io("ReadFromBigQuery")(output_type="BEAM_ROW", **given)  # type: ignore[no-any-return]


def _row_of_dict(row: Mapping[str, Any]) -> Row:
    return Row(**row)


class _WriteRows(PTransform):
    """Rows into a table of BigQuery, which has the columns of the rows' type."""

    def __init__(self, table: str, given: Mapping[str, Any]) -> None:
        super().__init__()
        self._table = table
        self._given = given

    def expand(self, rows: Any) -> Any:
        label = rows.pipeline.full_label
        schema = declared_schema(rows.hint, label, "give the rows types, such as beam.Row(n=int(...))")
        columns = import_module(f"{_PACKAGE}.io.bigquery.schemas").columns_of_arrow(label, schema)
        write = import_module(f"{_PACKAGE}.io.bigquery.write").WriteToBigQuery(
            self._table,
            project=import_module(f"{_PACKAGE}.io.bigquery.read").project_of(rows.pipeline),
            schema=[column.as_json() for column in columns],
            method="STORAGE_WRITE_API",
            **self._given,
        )
        return rows | write


def _write_bigquery(settings: _Settings) -> PTransform:
    given = settings.given(kms_key="kms_key", triggering_frequency="triggering_frequency_seconds")
    return _WriteRows(settings.require("table"), given)


class _Chain(PTransform):
    """Transforms, one after the other."""

    def __init__(self, *transforms: PTransform) -> None:
        super().__init__()
        self._transforms = transforms

    def expand(self, input: Any) -> Any:
        for transform in self._transforms:
            input = input | transform
        return input


class Read(_Managed):
    """Read from a system that is named.

    The elements are rows.  Of Kafka they are the values of records, in the format RAW or STRING with the field
    `payload`, in JSON with the fields of the record; a record without a value has no element.

    Args:
      source: the name of the system, such as "iceberg"; capitals don't matter.
      config: the settings, with Beam's names.
      config_url: the path of a file of YAML that has them instead; any file system that penstock reads.
      expansion_service: Beam's; has no effect.
    """

    _verb = "reads"
    _made = {ICEBERG: _read_iceberg, KAFKA: _read_kafka, BIGQUERY: _read_bigquery, DELTA: _read_delta}

    def __init__(
        self,
        source: str,
        config: Mapping[str, Any] | None = None,
        config_url: str | None = None,
        expansion_service: Any = None,
    ) -> None:
        super().__init__(source, config, config_url, expansion_service)


class Write(_Managed):
    """Write rows to a system that is named.

    To Kafka, each row is the value of a record: in the format RAW or STRING its only field, in JSON all of its fields.

    Args:
      sink: the name of the system, such as "iceberg"; capitals don't matter.
      config, config_url, expansion_service: as those of `Read`.
    """

    _verb = "writes"
    _made = {ICEBERG: _write_iceberg, KAFKA: _write_kafka, BIGQUERY: _write_bigquery}

    def __init__(
        self,
        sink: str,
        config: Mapping[str, Any] | None = None,
        config_url: str | None = None,
        expansion_service: Any = None,
    ) -> None:
        super().__init__(sink, config, config_url, expansion_service)
