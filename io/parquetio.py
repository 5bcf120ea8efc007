"""Parquet files: the names of Beam's `io.parquetio`.

Type checkers read this module.  At run time `sdk/names/namespaces.py` has the names, and Beam's other ones.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .files.parquet import ReadAllFromParquet as ReadAllFromParquet
    from .files.parquet import ReadAllFromParquetBatched as ReadAllFromParquetBatched
    from .files.parquet import ReadFromParquet as ReadFromParquet
    from .files.parquet import ReadFromParquetBatched as ReadFromParquetBatched
    from .files.parquet import WriteToParquet as WriteToParquet
    from .files.parquet import WriteToParquetBatched as WriteToParquetBatched

    def __getattr__(name: str) -> Any: ...
