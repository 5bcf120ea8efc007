"""Catalogs of Iceberg tables: the client's, by name and properties; its errors in words.

Properties may have secrets, which are shown nowhere:

>>> Catalog("default", {"uri": "http://localhost", "credential": "id:secret"})
Catalog('default')
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...sdk.errors import PenstockError, SinkError, SourceError
from ...sdk.redaction import looks_secret, redacted, redacted_cause
from ..connections.lost_connections import is_lost
from ..files.filesystem import absolute_path
from ..lakehouse.table import ConflictError
from ..optional_package import optional_package

# The properties that say where a catalog is.
_CATALOG_PROPERTIES = ("uri", "type", "py-catalog-impl")

# How often a new catalog is opened again, and what databases say if another client makes the same tables.
_ATTEMPTS = 10
_MADE_MEANWHILE = ("already exists", "duplicate key")


def package(needed_for: str, module: str = "pyiceberg") -> Any:
    """Import and return a module of the client's package.  Raises `MissingExtraError`."""
    return optional_package(module, extra="iceberg", needed_for=needed_for)


class Catalog:
    """A catalog, by its name and its properties; picklable.

    Without a place, but with the path of a `warehouse` on a local disk, it is an SQLite database in the warehouse.
    Without both, the client looks for the name in its environment variables and in its file `.pyiceberg.yaml`.
    """

    def __init__(self, name: str | None, properties: Mapping[str, str] | None) -> None:
        self.name = name or "default"
        given = dict(properties or {})
        warehouse = given.get("warehouse", "")
        if warehouse and "://" not in warehouse:
            given["warehouse"] = "file://" + absolute_path(warehouse)
        if given.get("warehouse", "").startswith("file://") and not any(name in given for name in _CATALOG_PROPERTIES):
            path = given["warehouse"].removeprefix("file://")
            given |= {"type": "sql", "uri": f"sqlite:///{path}/catalog.db"}
        self.properties = given

    @property
    def embedded(self) -> str | None:
        """The directory of the SQLite database in a local warehouse; None for another catalog."""
        path = self.properties.get("warehouse", "").removeprefix("file://")
        return path if self.properties.get("uri") == f"sqlite:///{path}/catalog.db" else None

    def opened(self, label: str) -> Any:
        """Return the client's catalog."""
        if self.embedded is not None:
            os.makedirs(self.embedded, exist_ok=True)
        # A client isn't shared with a forked process.
        load = package(label, "pyiceberg.catalog").load_catalog
        for _ in range(_ATTEMPTS):
            try:
                return load(self.name, **self._with_store())
            except Exception as error:
                # The client looks for the tables of an SQL catalog, and then makes them: another may come in between.
                if not any(said in str(error) for said in _MADE_MEANWHILE):
                    raise
                time.sleep(random.random() / 10)
        return load(self.name, **self._with_store())

    def load(self, identifier: str, label: str) -> Any:
        """Return a table of the client.  Raises the client's errors."""
        catalog = self.opened(label)
        try:
            return catalog.load_table(identifier)
        finally:
            closed(catalog)

    def file_io(self, location: str, label: str) -> Any:
        """Return what reads and writes the files of a table."""
        return package(label, "pyiceberg.io").load_file_io(self._with_store(), location)

    def _with_store(self) -> dict[str, str]:
        """Return the properties, with those of a store that the environment has."""
        # PyArrow's client of S3 doesn't work in a forked process.
        own = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"} if self._is_remote() else {}
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if endpoint is not None:
            own["s3.endpoint"] = endpoint
        return own | self.properties

    def _is_remote(self) -> bool:
        return not self.properties.get("warehouse", "file://").startswith("file://")

    def without_secrets(self, text: str) -> str:
        """Return a text without the values of properties and environment variables that look secret."""
        for name, value in [*self.properties.items(), *os.environ.items()]:
            if len(str(value)) >= 4 and looks_secret(name):
                text = text.replace(str(value), "***")
        return redacted(text)

    def __repr__(self) -> str:
        return f"Catalog({self.name!r})"


def closed(catalog: Any) -> None:
    """Close a catalog's connections, if it has some."""
    if hasattr(catalog, "engine"):
        catalog.engine.dispose()


@contextmanager
def explained(
    catalog: Catalog, table: str, label: str, what: str, kind: type[SourceError] | type[SinkError] = SourceError
) -> Iterator[None]:
    """Convert the client's errors, except of lost connections, into `SourceError`s or `SinkError`s.

    Args:
      what: such as "can't be read".
    """
    errors = package(label, "pyiceberg.exceptions")
    try:
        yield
    except (PenstockError, ConflictError):
        raise
    except (errors.NoSuchTableError, errors.NoSuchNamespaceError):
        raise kind(f"{label}: there is no Iceberg table {table!r} in the catalog {catalog.name!r}") from None
    except Exception as error:
        if is_lost(error):
            raise
        said = catalog.without_secrets(str(error)) or type(error).__name__
        advice = ""
        if any(word in f"{type(error).__name__} {said}" for word in ("403", "401", "Forbidden", "Denied", "Unauthor")):
            advice = "; are the credentials right?"
        raise kind(f"{label}: Iceberg table {table!r} {what}: {said}{advice}") from redacted_cause(error)
