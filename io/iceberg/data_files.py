"""Data files of Iceberg, which workers write without a catalog."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec

from ..files.filesystem import filesystem_for
from ..lakehouse.table import DataFiles
from .catalog import Catalog, package


class IcebergFiles(DataFiles):
    """The data files of a table of Iceberg.

    Args:
      metadata: the client's metadata of the table.
    """

    def __init__(self, catalog: Catalog, metadata: Any, label: str) -> None:
        self._catalog = catalog
        self._metadata = metadata
        self._label = label
        self.schema = arrow_schema(metadata.schema())

    def prepared(self) -> bytes:
        """Return what `of` needs."""
        text: str = self._metadata.model_dump_json()
        return text.encode()

    @staticmethod
    def of(catalog: Catalog, prepared: bytes, label: str) -> IcebergFiles:
        """Return the data files of a table that was prepared."""
        metadata = package(label, "pyiceberg.table.metadata").TableMetadataUtil.parse_raw(prepared.decode())
        return IcebergFiles(catalog, metadata, label)

    def write(self, data: Any, directory: str, name: str) -> list[Any]:
        filesystem_for(directory).mkdirs(directory)
        own = {
            "write.data.path": directory,
            "write.py-location-provider.impl": f"{__package__}.locations.FlatLocations",
            "penstock.name": name,
        }
        metadata = self._metadata.model_copy(update={"properties": self._metadata.properties | own})
        io = self._catalog.file_io(directory, self._label)
        # The client has no public function that writes the files of a table and doesn't commit them.
        client = package(self._label, "pyiceberg.io.pyarrow")
        files = list(client._dataframe_to_data_files(metadata, data, io, uuid.uuid4()))
        fs = filesystem_for(directory)
        for file in files:
            fs.sync(file.file_path)
        fs.sync_directory(directory)
        return [encoded_file(file, metadata.default_spec_id) for file in files]


# The fields of a file that a reader needs, and those of one that is committed, as far as they are plain values, by the
# names of Iceberg's specification (Manifests).
READ_FIELDS = ("file_path", "record_count", "file_size_in_bytes")
_FIELDS = (
    *READ_FIELDS,
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
    "key_metadata",
    "split_offsets",
    "equality_ids",
    "sort_order_id",
)


def encoded_file(file: Any, spec_id: int, names: Sequence[str] = _FIELDS) -> bytes:
    """Return a file of the client, of data or of deletes, as bytes that other versions of the client read.

    Args:
      spec_id: of its partitioning.
      names: of its plain fields.
    """
    fields = {name: getattr(file, name) for name in names}
    fields |= {"content": int(file.content), "file_format": str(file.file_format.value), "spec_id": spec_id}
    fields["partition"] = [_tagged(file.partition[i]) for i in range(len(file.partition))]
    return msgspec.msgpack.encode(fields)


def files_of(files: Sequence[bytes]) -> list[Any]:
    """Return encoded files as the client has them."""
    return [_file_of(file) for file in files]


def _file_of(data: bytes) -> Any:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    # Earlier versions have pickled it.
    if data.startswith(b"\x80"):
        return pickle.loads(data)
    fields = msgspec.msgpack.decode(data, type=dict[str, Any])
    spec_id = fields.pop("spec_id", None)
    own: dict[str, Any] = {
        "content": DataFileContent(fields.pop("content")),
        "file_format": FileFormat(fields.pop("file_format")),
        "partition": Record(*map(_untagged, fields.pop("partition"))),
    }
    file = DataFile.from_args(**own, **fields)
    if spec_id is not None:
        file.spec_id = spec_id
    return file


def _tagged(value: Any) -> Any:
    """Return a value of a partition; with its type, if MessagePack doesn't have it."""
    if isinstance(value, Decimal):
        return ["decimal", str(value)]
    if isinstance(value, uuid.UUID):
        return ["uuid", value.bytes]
    return value


def _untagged(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    kind, data = value
    return Decimal(data) if kind == "decimal" else uuid.UUID(bytes=data)


def arrow_schema(schema: Any) -> Any:
    """Return the `pyarrow.Schema` of a schema of the client, without its field ids, and with types of usual size."""
    import pyarrow

    return pyarrow.schema([_plain(field) for field in schema.as_arrow()])


def _plain(field: Any) -> Any:
    import pyarrow

    return pyarrow.field(field.name, _plain_type(field.type), field.nullable)


def _plain_type(kind: Any) -> Any:
    import pyarrow
    from pyarrow import types

    if types.is_large_string(kind):
        return pyarrow.string()
    if types.is_large_binary(kind):
        return pyarrow.binary()
    if types.is_large_list(kind) or types.is_list(kind):
        return pyarrow.list_(_plain(kind.value_field))
    if types.is_struct(kind):
        return pyarrow.struct([_plain(kind.field(i)) for i in range(kind.num_fields)])
    if types.is_map(kind):
        return pyarrow.map_(_plain_type(kind.key_type), _plain(kind.item_field))
    return kind
