"""Errors of operations that deferred frames don't support, by Beam's names, and the refusal of such operations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from ..sdk.errors import UnsupportedError


class WontImplementError(UnsupportedError, NotImplementedError):
    """An operation of pandas that isn't supported on a deferred frame.

    >>> import penstock as beam
    >>> from penstock.dataframe.convert import to_dataframe
    >>> df = to_dataframe(beam.Pipeline() | beam.Create([beam.Row(item="tea", cups=2)]))
    >>> df.head()
    Traceback (most recent call last):
    penstock.dataframe.frame_base.WontImplementError: df.head isn't supported on a deferred frame; rows have ...
    """


class NonParallelOperation(UnsupportedError):
    """An operation that would need all rows in one place.

    >>> import penstock as beam
    >>> from penstock.dataframe.convert import to_dataframe
    >>> df = to_dataframe(beam.Pipeline() | beam.Create([beam.Row(item="tea", cups=2)]))
    >>> df.sum()
    Traceback (most recent call last):
    penstock.dataframe.frame_base.NonParallelOperation: df.sum isn't supported on a deferred frame; it needs ...
    """


@contextmanager
def allow_non_parallel_operations(allow: bool = True) -> Iterator[None]:
    """Do nothing: operations that would need all rows in one place aren't supported, allowed or not.

    >>> import penstock as beam
    >>> from penstock.dataframe.convert import to_dataframe
    >>> df = to_dataframe(beam.Pipeline() | beam.Create([beam.Row(item="tea", cups=2)]))
    >>> with allow_non_parallel_operations():
    ...     df.mean()
    Traceback (most recent call last):
    penstock.dataframe.frame_base.NonParallelOperation: df.mean isn't supported on a deferred frame; it needs ...
    """
    yield


# What to use instead, by the operation.
_ORDERED = "rows have no order"
_WHOLE = "it needs all rows; use an aggregate of groupby(...), or beam.CombineGlobally on to_pcollection(df)"
_LATER = "rows exist only while the pipeline runs; write them, or use to_pcollection(df)"
_IN_ORDER = (
    "sort_values sort_index head tail iloc iat shift diff cumsum cumprod cummax cummin rank first last ffill bfill "
    "interpolate rolling expanding ewm duplicated drop_duplicates sample itertuples iterrows"
)
_OF_ALL_ROWS = "sum mean count min max median std var nunique quantile mode unique agg aggregate"
_OF_VALUES = "values to_numpy to_dict to_list tolist plot hist shape size empty info describe T transpose"
_REASONS = {
    **dict.fromkeys(_IN_ORDER.split(), f"{_ORDERED}; sort the results of a window in a DoFn behind GroupByKey"),
    **dict.fromkeys(_OF_ALL_ROWS.split(), _WHOLE),
    **dict.fromkeys(_OF_VALUES.split(), _LATER),
    **dict.fromkeys(["apply", "map"], "use beam.Map on to_pcollection(df)"),
}


def refuse(name: str, of: str = "frame", reason: str = "") -> NoReturn:
    """Raise `WontImplementError` for an operation; `NonParallelOperation` for one that needs all rows in one place."""
    reason = reason or _REASONS.get(name, "supported operations are listed in docs/dataframes.md")
    kind: Any = NonParallelOperation if reason == _WHOLE else WontImplementError
    raise kind(f"df.{name} isn't supported on a deferred {of}; {reason}")


def refuse_arguments(name: str, arguments: dict[str, Any], **defaults: Any) -> None:
    """Raise `WontImplementError` for arguments other than these defaults."""
    for argument, value in arguments.items():
        if argument not in defaults or not (value is defaults[argument] or value == defaults[argument]):
            refuse(
                f"{name}({argument}={value!r:.60})", reason=f"expected {argument}={defaults.get(argument, 'not given')}"
            )


def check_columns(names: Iterable[Any], columns: Collection[str]) -> None:
    """Raise `KeyError` for the name of no column of a frame."""
    for name in names:
        if name not in columns:
            raise KeyError(f"there is no column {name!r}; the frame has {', '.join(columns) or 'none'}")
