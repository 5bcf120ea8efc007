"""SQL over the rows of PCollections, evaluated by DuckDB (extra `sql-transform`).

sql_transform.py  SqlTransform: a query as a transform, by row or by window
query.py          Query: a query that was checked when the pipeline was built, and its evaluation
"""

from .sql_transform import SqlTransform

__all__ = ["SqlTransform"]
