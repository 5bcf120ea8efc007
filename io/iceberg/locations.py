"""Locations of data files: all of a transaction's in one directory, whatever their partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.locations import LocationProvider

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionKey


class FlatLocations(LocationProvider):
    """The locations of one writer's files; the client finds the class by its name in the table's properties."""

    def new_data_location(self, data_file_name: str, partition_key: PartitionKey | None = None) -> str:
        """Return the path of a new file."""
        return f"{self.data_path}/{self.table_properties['penstock.name']}-{data_file_name}"
