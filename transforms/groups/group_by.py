"""GroupBy and Select: grouping by fields, aggregating fields, and selecting them."""

from __future__ import annotations

import keyword
from collections import Counter, namedtuple
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

from ...frozen import frozen
from ...persistence import restores
from ...sdk import typehints
from ...sdk.columns.column_elements import Elements, Pairs, as_rows, as_values, of_columns
from ...sdk.columns.expressions import Column, Projection, Rearrangement, field_of
from ...sdk.combine_fn import CombineFn
from ...sdk.dofn.arrangement import WHOLE, ArrangementDoFn, Part
from ...sdk.dofn.dofn import ColumnDoFn, DoFn, MapDoFn
from ...sdk.elements.row import Row
from ...sdk.errors import PipelineError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ...sdk.type_variables import A, K
from ...sdk.typehints.column_types import check_columns, type_in
from ...sdk.typehints.schema import with_schema
from ..combine import CombinePerKey
from ..combiners.tuple_combine import TupleCombineFn
from ..group_by_key import GroupByKey
from ..par_do.pardo import ParDo
from .keys import Keying

if TYPE_CHECKING:
    from ...sdk.static_types import KeyFunction

    T = TypeVar("T")


# A field's name, an expression of `col`, or a function of the element.
Field: TypeAlias = str | Column | Callable[[Any], Any]


class GroupBy(PTransform, Generic[A, K]):
    """Elements to (key, iterable of elements), by one or more of their fields.

    Returns a `PCollection[tuple[K, Iterable[T]]]` for a key of type K and elements of type T.

    A field is the name of an attribute, an expression of `col`, or a function of the element.  With a single positional
    field the key is that field's value; with several, or with a keyword, it is a named tuple `Key` of them.  Positional
    functions and expressions are named "key0", "key1" and so on; keywords name their fields.  Expressions can't stand
    beside functions.

    >>> import penstock as beam
    >>> sales = [beam.Row(item="tea", cups=2), beam.Row(item="tea", cups=1), beam.Row(item="milk", cups=1)]
    >>> sales | beam.GroupBy("item").aggregate_field("cups", sum, "total")
    [Result(item='tea', total=3), Result(item='milk', total=1)]
    >>> [1, 2, 3] | beam.GroupBy(odd=lambda x: x % 2 == 1)
    [(Key(odd=True), [1, 3]), (Key(odd=False), [2])]
    """

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]

        def _takes(self, element: A, /) -> None: ...
        def _groups(self) -> K: ...
        def _gives(self, pcoll: PCollection[T], /) -> PCollection[tuple[K, Iterable[T]]]: ...

    @overload
    def __init__(self: GroupBy[object, Any], field: str | Column, /, *fields: Field, **kwargs: Field) -> None: ...
    @overload
    def __init__(self, field: KeyFunction[A, K], /) -> None: ...
    @overload
    def __init__(self: GroupBy[A, Any], field: KeyFunction[A, K], /, *fields: Field, **kwargs: Field) -> None: ...
    @overload
    def __init__(self: GroupBy[object, Any], /, **kwargs: Field) -> None: ...
    def __init__(self, /, *fields: Any, **kwargs: Any) -> None:
        super().__init__()
        self.tuple_keys = len(fields) != 1 or bool(kwargs)
        unnamed = "key" if not self.tuple_keys else "key{}"
        self.fields = [(f if isinstance(f, str) else unnamed.format(i), f) for i, f in enumerate(fields)]
        self.fields.extend(kwargs.items())
        _check("GroupBy", self.fields)

    def default_label(self) -> str:
        return f"GroupBy({', '.join(name for name, _ in self.fields)})"

    def force_tuple_keys(self, value: bool = True) -> GroupBy[A, Any]:
        """Return the transform with a named tuple as the key even for a single field."""
        changed: Any = object.__new__(type(self))
        changed.__dict__.update(self.__dict__, tuple_keys=value)
        return changed  # type: ignore[no-any-return]

    def aggregate_field(self, field: Field, combine_fn: CombineFn[Any, Any, Any] | Any, dest: str) -> GroupAndAggregate:
        """Return a grouping to one named tuple `Result` for each key: the key's fields, then the aggregates.

        Args:
          field: the field to aggregate, as in `GroupBy` itself.
          combine_fn: the combiner, as in `CombinePerKey`.
          dest: the name of the aggregate in the result.

        The result has the same method, for more aggregates.
        """
        return GroupAndAggregate(self, ()).aggregate_field(field, combine_fn, dest)

    def expand(self, pcoll: PCollection[T]) -> PCollection[tuple[K, Iterable[T]]]:
        exprs = [expr for _, expr in self.fields]
        names = tuple(name for name, _ in self.fields)
        hint = typehints.pair_of(Any, pcoll.hint)
        _check_fields(exprs, pcoll)
        keys = _columns(exprs)
        of_keys = NamedTuples("Key", names) if self.tuple_keys else as_values
        is_needed = any(isinstance(expr, Column) for expr in exprs)
        operation = None if keys is None else Keying(keys, of_keys, is_needed)
        if operation is not None and is_needed:
            dofn: DoFn = ColumnDoFn(operation, "Key")
        elif self.tuple_keys:
            key_of = _named(exprs, names)
            dofn = MapDoFn(lambda v: (key_of(v), v))
        elif isinstance(exprs[0], str):
            dofn = ArrangementDoFn((Part((exprs[0],)), WHOLE), "Key")
        else:
            single = _getter(exprs[0])
            dofn = MapDoFn(lambda v: (single(v), v))
        dofn.column_operation = operation
        keyed: PCollection[tuple[K, T]] = pcoll | "Key" >> ParDo(dofn).with_output_types(hint)
        return keyed | "Group" >> GroupByKey()


class GroupAndAggregate(PTransform):
    """Result of `GroupBy(...).aggregate_field(...)`."""

    def __init__(self, grouping: GroupBy[Any, Any], aggregations: Sequence[tuple[Field, Any, str]]) -> None:
        super().__init__()
        self.grouping = grouping
        self.aggregations = tuple(aggregations)
        _check("GroupBy", [*grouping.fields, *((dest, field) for field, _, dest in self.aggregations)])

    def default_label(self) -> str:
        return f"{self.grouping.default_label()}.aggregate_field"

    def aggregate_field(self, field: Field, combine_fn: CombineFn[Any, Any, Any] | Any, dest: str) -> GroupAndAggregate:
        """Return the transform with one more aggregate; see `GroupBy.aggregate_field`."""
        return GroupAndAggregate(self.grouping, (*self.aggregations, (field, combine_fn, dest)))

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        names = tuple(name for name, _ in self.grouping.fields) + tuple(dest for _, _, dest in self.aggregations)
        keys = [expr for _, expr in self.grouping.fields]
        values = [field for field, _, _ in self.aggregations]
        _check_fields([*keys, *values], pcoll)
        combine_fn = TupleCombineFn(*(fn for _, fn, _ in self.aggregations))
        types = [_type_in(expr, pcoll.hint) for expr in keys] + [None] * len(values)
        to_results = ParDo(_results(names)).with_output_types(with_schema(Any, zip(names, types, strict=True)))
        results: PCollection[Any] = (
            pcoll
            | "Key" >> ParDo(_keys_and_values(keys, values)).with_output_types(tuple[Any, Any])
            | "Combine" >> CombinePerKey(combine_fn)
            | "Result" >> to_results
        )
        return results


class Select(ParDo[Any, Row]):
    """Elements to `Row`s of some of their fields, each the name of an attribute or a function.

    Returns a `PCollection[Row]`.

    Positional functions are named "arg00", "arg01" and so on.  Expressions of `col` are computed for many elements at
    once; they can't be combined with functions.

    >>> import penstock as beam
    >>> [beam.Row(a=1, b=2)] | beam.Select("a", twice=lambda row: 2 * row.b)
    [Row(a=1, twice=4)]
    >>> [beam.Row(a=1, b=2)] | beam.Select("a", twice=2 * beam.col("b"))
    [Row(a=1, twice=4)]
    """

    def __init__(self, *args: Field | Column, **kwargs: Field | Column) -> None:
        self.fields = [(f if isinstance(f, str) else f"arg{i:02}", f) for i, f in enumerate(args)]
        self.fields.extend(kwargs.items())
        _check("Select", self.fields)
        dofn: Any = self._dofn()
        super().__init__(dofn)

    def _dofn(self) -> DoFn:
        is_needed = any(isinstance(field, Column) for _, field in self.fields)
        columns: list[tuple[str, Column]] = []
        getters: list[tuple[str, Callable[[Any], Any]]] = []
        for name, field in self.fields:
            if isinstance(field, (str, Column)):
                columns.append((name, _column(field)))
            elif is_needed:
                raise PipelineError(f"Select: {name!r} is a function, and can't stand beside expressions of col")
            if not isinstance(field, Column):
                getters.append((name, _getter(field)))
        operation = Projection(tuple(columns), as_rows, is_needed)
        if is_needed:
            return ColumnDoFn(operation, self.default_label())
        dofn = MapDoFn(lambda v: Row(**{name: get(v) for name, get in getters}))
        if len(columns) == len(self.fields):
            dofn.column_operation = operation
        return dofn

    def default_label(self) -> str:
        return f"ToRows({', '.join(name for name, _ in self.fields)})"

    def add_to(self, pcoll: PCollection[Any], *args: Any, **kwargs: Any) -> dict[str | None, PCollection[Any]]:
        _check_fields([field for _, field in self.fields], pcoll)
        return super().add_to(pcoll, *args, **kwargs)

    def infer_output_type(self, input_type: Any) -> Any:
        return with_schema(Row, [(name, _type_in(field, input_type)) for name, field in self.fields])


def _check_fields(fields: Sequence[Field], pcoll: PCollection[Any]) -> None:
    """Raise `ColumnError` for a field that elements of a PCollection don't have."""
    is_needed = any(isinstance(field, Column) for field in fields)
    columns = [_column(field) for field in fields if not callable(field)]
    check_columns(columns, pcoll.checked_type, pcoll.pipeline.full_label, is_needed)


def _type_in(field: Field, element_type: Any) -> Any:
    """Return the type of a field of an element; None if it is unknown."""
    return None if callable(field) else type_in(_column(field), element_type)


def _column(field: str | Column) -> Column:
    return field_of(field) if isinstance(field, str) else field


def _keys_and_values(keys: list[Field], values: list[Field]) -> DoFn:
    """Return the DoFn from an element to its key and the inputs of the aggregates, both as tuples."""
    columns = _columns([*keys, *values])
    if columns is not None:
        is_needed = any(isinstance(field, Column) for field in (*keys, *values))
        fields = tuple((f"field{i}", column) for i, column in enumerate(columns))
        operation = Projection(fields, Pairs(len(keys), of_columns, of_columns), is_needed)
        if is_needed:
            return ColumnDoFn(operation, "Key")
        key, value = (tuple(Part((name,)) for name in fields if isinstance(name, str)) for fields in (keys, values))
        dofn: DoFn = ArrangementDoFn((key, value), "Key")
        dofn.column_operation = operation
        return dofn
    key_of, value_of = _together(keys), _together(values)
    return MapDoFn(lambda v: (key_of(v), value_of(v)))


def _columns(fields: Sequence[Field]) -> list[Column] | None:
    """Return names and expressions as expressions; None if there is a function.

    Raises `PipelineError` if there are both expressions and functions.
    """
    columns = [_column(field) for field in fields if not callable(field)]
    if len(columns) == len(fields):
        return columns
    for field in fields:
        if isinstance(field, Column):
            raise PipelineError(f"GroupBy: the expression {field.text} can't stand beside functions")
    return None


@frozen
class NamedTuples:
    """Makes named tuples of a record batch."""

    name: str
    fields: tuple[str, ...]

    def __call__(self, batch: Any) -> list[Any]:
        return list(map(named_tuple(self.name, self.fields)._make, of_columns(batch)))


def _results(names: tuple[str, ...]) -> DoFn:
    """Return the DoFn from a key and its aggregates, both as tuples, to the named tuple of both."""
    elements = NamedTuples("Result", names)

    def change(batch: Any, _: Elements) -> tuple[Any, Elements]:
        return batch.rename_columns(list(names)), elements

    dofn = MapDoFn(lambda pair: named_tuple("Result", names)(*pair[0], *pair[1]))
    dofn.column_operation = Rearrangement(change)
    return dofn


def _named(exprs: list[Field], names: tuple[str, ...]) -> Callable[[Any], Any]:
    values_of = _together(exprs)
    return lambda v: named_tuple("Key", names)(*values_of(v))


def _together(exprs: list[Field]) -> Callable[[Any], tuple[Any, ...]]:
    getters = [_getter(expr) for expr in exprs]
    return lambda v: tuple([get(v) for get in getters])


def _getter(field: Field) -> Callable[[Any], Any]:
    assert not isinstance(field, Column)
    return (lambda v: getattr(v, field)) if isinstance(field, str) else field


@lru_cache(maxsize=1000)
def named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    """Return the class of named tuples with these fields.  Its instances can be unpickled in any process.

    >>> named_tuple("Key", ("a", "b"))(1, 2)
    Key(a=1, b=2)
    """
    make: Any = namedtuple
    cls = make(name, fields)
    cls.__reduce__ = lambda self: (_unpickled, (name, fields, tuple(self)))
    return cls


@restores("group-by-key", 1)
def _unpickled(name: str, fields: tuple[str, ...], values: Iterable[Any]) -> Any:
    return named_tuple(name, fields)(*values)


def _check(transform: str, fields: list[tuple[str, Any]]) -> None:
    for name, expr in fields:
        if not isinstance(expr, (str, Column)) and not callable(expr):
            raise TypeError(f"{transform}: expected a field's name or a function for {name!r}, got {expr!r}")
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            raise PipelineError(f"{transform}: {name!r} can't be the name of a field")
        if isinstance(expr, str) and not expr.isidentifier():
            raise PipelineError(f"{transform}: {expr!r} is not the name of an attribute; use a function instead")
    ((name, count),) = Counter(name for name, _ in fields).most_common(1) or [("", 0)]
    if count > 1:
        raise PipelineError(f"{transform}: two fields are called {name!r}; give one of them another name by keyword")
