"""A catalog of Iceberg that notes by which process each commit is made."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog


class NotedCommits(SqlCatalog):
    """The SQL catalog; its property "noted" is the path of the notes, a process id a line."""

    def commit_table(self, *arguments: Any, **options: Any) -> Any:
        """Commit changes of a table, and note it."""
        result = super().commit_table(*arguments, **options)
        with pathlib.Path(self.properties["noted"]).open("a") as notes:
            notes.write(f"{os.getpid()}\n")
        return result
