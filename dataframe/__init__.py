"""Deferred data frames: the operations of pandas that are selections, expressions, filters, joins and aggregates.

frame_base.py  errors of operations that aren't supported, by Beam's names
frames.py      DeferredDataFrame and DeferredSeries: columns of a PCollection, as expressions over its fields
grouping.py    aggregates of groups, by `GroupBy(...).aggregate_field`
joining.py     merge, by `CoGroupByKey`, and concat
pandas_rows.py frames of pandas as rows
convert.py     to_dataframe and to_pcollection
io.py          read_csv and read_parquet
row_files.py   ReadFromCsv and ReadFromJson as Beam has them: files as rows
transforms.py  DataframeTransform: a function of frames as a transform
text_methods.py
               the methods of `.str`

A frame is a PCollection of rows whose fields are known, and expressions over them.  Aggregates and joins are those of
each window.
"""

from ..sdk.names import namespaces as _namespaces
from .frame_base import NonParallelOperation, WontImplementError, allow_non_parallel_operations

__all__ = ["NonParallelOperation", "WontImplementError", "allow_non_parallel_operations"]

_namespaces.add_to("dataframe", globals())
