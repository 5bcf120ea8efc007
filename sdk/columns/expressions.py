"""Expressions over the fields of elements: `beam.col("price") * beam.col("quantity") > 100`.

pyarrow computes them for a whole bundle at once, with the meaning of Python's operators: `/` is the true quotient, `//`
and `%` round down, and an integer of more than 64 bits is an error.  An operation on None is None, and a filter drops
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date
from typing import TYPE_CHECKING, Any, TypeAlias

from ...frozen import frozen
from ...windowing.microseconds import MICROS_PER_SECOND
from ...windowing.timestamp import in_range, micros_of
from ..elements.bundle import Bundle
from ..elements.row import fields_of
from ..errors import ColumnError, missing_extra
from ..user_code.signatures import label_of
from .arrow_arithmetic import floored_quotient, quotient, remainder, scalar_of
from .column_bundle import ColumnBundle
from .column_elements import Elements, Pairs, array_of, as_dicts, as_rows, as_values, of_columns, values_of


class Column:
    """A value computed of the fields of an element.

    Made by `col`.  It has Python's operators, `&`, `|` and `~` for truth values, `isin`, `is_null` and `cast`; and
    `apply` for all functions of `pyarrow.compute`.

    >>> (col("price") * 2 > 100) & ~col("is_sold")
    <Column ((price * 2) > 100) & ~is_sold>
    """

    __slots__ = ("_arguments", "_function", "_text")

    if TYPE_CHECKING:
        # A transform takes it in place of a function.
        def __call__(self, element: Any, /) -> Any: ...

    def __init__(self, function: Callable[..., Any] | str, arguments: tuple[Any, ...], text: str) -> None:
        # A function of Arrow arrays and scalars; or the name of one of pyarrow.compute or of a field.
        self._function = function
        self._arguments = arguments
        self._text = text

    def __repr__(self) -> str:
        return f"<Column {self.text}>"

    @property
    def text(self) -> str:
        """The expression as text, without outer parentheses."""
        is_enclosed = self._text.startswith("(") and self._text.endswith(")")
        return self._text[1:-1] if is_enclosed else self._text

    @property
    def fields(self) -> set[str]:
        """The names of the fields that it is computed of.

        >>> sorted((col("price") * col("quantity") > 100).fields)
        ['price', 'quantity']
        """
        if self.is_field:
            return set(self._arguments)
        return set().union(*(each.fields for each in self._arguments if isinstance(each, Column)))

    @property
    def is_field(self) -> bool:
        """True for a field itself."""
        return self._function == _FIELD

    @property
    def parts(self) -> tuple[str | None, tuple[Any, ...]]:
        """The name of its function, and the arguments.

        The name is that of a function of `pyarrow.compute`, or 'field' or 'is_in'; None for another function.
        """
        name = "is_in" if self._function is _is_in else self._function
        return name if isinstance(name, str) else None, self._arguments

    @property
    def is_of_arrow(self) -> bool:
        """True if no function of a user is part of it."""
        module = getattr(self._function, "__module__", None) or ""
        is_known = isinstance(self._function, str) or module.startswith(("pyarrow.", f"{__package__}."))
        return is_known and all(each.is_of_arrow for each in self._arguments if isinstance(each, Column))

    def values(self, batch: Any) -> Any:
        """Return the values for a record batch, as an Arrow array or scalar.

        Raises `ColumnError`, and the errors of pyarrow.
        """
        if self.is_field:
            return _field(batch, *self._arguments)
        arguments = [_decoded(each.values(batch)) if isinstance(each, Column) else each for each in self._arguments]
        if not isinstance(self._function, str):
            return self._function(*arguments)
        return getattr(_compute(), self._function)(
            *[scalar_of(each) if type(each) is int else each for each in arguments]
        )

    def __bool__(self) -> bool:
        raise TypeError(f"the truth of {self.text} is known for each element only; use &, | and ~ for and, or and not")

    __hash__ = None  # type: ignore[assignment]

    def apply(self, function: Callable[..., Any], *arguments: Any) -> Column:
        """Return the value of a function of the column, an Arrow array, and of further columns or constants.

        >>> import penstock as beam, pyarrow.compute
        >>> [beam.Row(name="Ada")] | beam.Map(beam.col("name").apply(pyarrow.compute.utf8_upper))
        ['ADA']
        """
        given = ", ".join(map(_text, (self, *arguments)))
        return Column(function, (self, *arguments), f"{label_of(function)}({given})")

    def isin(self, values: Iterable[Any]) -> Column:
        """Return whether the value is one of these."""
        known = list(values)
        return Column(_is_in, (self, known), f"{self._text}.isin({known!r:.60})")

    def is_null(self) -> Column:
        """Return whether the value is None."""
        return Column("is_null", (self,), f"{self._text}.is_null()")

    def cast(self, type: Any) -> Column:
        """Return the value as another type: a `pyarrow.DataType`, or the name of one."""
        return Column("cast", (self, type), f"{self._text}.cast({type})")

    def __add__(self, other: Any) -> Column:
        return _operator("add_checked", self, "+", other)

    def __radd__(self, other: Any) -> Column:
        return _operator("add_checked", other, "+", self)

    def __sub__(self, other: Any) -> Column:
        return _operator("subtract_checked", self, "-", other)

    def __rsub__(self, other: Any) -> Column:
        return _operator("subtract_checked", other, "-", self)

    def __mul__(self, other: Any) -> Column:
        return _operator("multiply_checked", self, "*", other)

    def __rmul__(self, other: Any) -> Column:
        return _operator("multiply_checked", other, "*", self)

    def __truediv__(self, other: Any) -> Column:
        return _operator(quotient, self, "/", other)

    def __rtruediv__(self, other: Any) -> Column:
        return _operator(quotient, other, "/", self)

    def __floordiv__(self, other: Any) -> Column:
        return _operator(floored_quotient, self, "//", other)

    def __rfloordiv__(self, other: Any) -> Column:
        return _operator(floored_quotient, other, "//", self)

    def __mod__(self, other: Any) -> Column:
        return _operator(remainder, self, "%", other)

    def __rmod__(self, other: Any) -> Column:
        return _operator(remainder, other, "%", self)

    def __xor__(self, other: Any) -> Column:
        return _operator("bit_wise_xor", self, "^", other)

    def __rxor__(self, other: Any) -> Column:
        return _operator("bit_wise_xor", other, "^", self)

    def __neg__(self) -> Column:
        return Column("negate_checked", (self,), f"-{self._text}")

    def __abs__(self) -> Column:
        return Column("abs_checked", (self,), f"abs({self.text})")

    def __eq__(self, other: object) -> Column:  # type: ignore[override]
        return _operator("equal", self, "==", other)

    def __ne__(self, other: object) -> Column:  # type: ignore[override]
        return _operator("not_equal", self, "!=", other)

    def __lt__(self, other: Any) -> Column:
        return _operator("less", self, "<", other)

    def __le__(self, other: Any) -> Column:
        return _operator("less_equal", self, "<=", other)

    def __gt__(self, other: Any) -> Column:
        return _operator("greater", self, ">", other)

    def __ge__(self, other: Any) -> Column:
        return _operator("greater_equal", self, ">=", other)

    def __and__(self, other: Any) -> Column:
        return _operator("and_kleene", self, "&", other)

    def __or__(self, other: Any) -> Column:
        return _operator("or_kleene", self, "|", other)

    def __invert__(self) -> Column:
        return Column("invert", (self,), f"~{self._text}")


def col(name: str) -> Column:
    """Return the field of this name, for expressions over it.

    Raises `MissingExtraError` without pyarrow.

    >>> import penstock as beam
    >>> [beam.Row(a=1, b=2), beam.Row(a=5, b=1)] | beam.Filter(beam.col("a") > beam.col("b"))
    [Row(a=5, b=1)]
    """
    if not isinstance(name, str):
        raise TypeError(f"col: expected the name of a field, got {name!r}")
    _compute()
    return field_of(name)


def field_of(name: str) -> Column:
    """Return the field of this name, also without pyarrow."""
    return Column(_FIELD, (name,), name)


# The function of a column that is a field.
_FIELD = "field"


def _operator(function: Any, left: Any, sign: str, right: Any) -> Column:
    return Column(function, (left, right), f"({_text(left)} {sign} {_text(right)})")


def _text(value: Any) -> str:
    return value._text if isinstance(value, Column) else repr(value)


def _compute() -> Any:
    try:
        import pyarrow.compute
    except ImportError as error:
        raise missing_extra("pyarrow", "parquet", "beam.col") from error
    return pyarrow.compute


def _field(batch: Any, name: str) -> Any:
    """Return a column of a batch; numbers as Python's, of 64 bits."""
    from pyarrow import types

    index = batch.schema.get_field_index(name)
    if index < 0:
        why = (batch.schema.metadata or {}).get(f"{_WITHOUT}{name}".encode())
        if why is not None:
            raise ColumnError(f"the elements can't be converted to columns: the field {name!r}: {why.decode()}")
        names = [own for own in batch.schema.names if own != _WITHOUT]
        raise ColumnError(f"there is no field {name!r}; the elements have {', '.join(names) or 'none'}")
    column = batch.column(index)
    if types.is_integer(column.type) and column.type.bit_width < 64:
        return column.cast("int64")
    return column.cast("float64") if types.is_floating(column.type) else column


def _decoded(values: Any) -> Any:
    """Return an Arrow array without a dictionary."""
    return values.dictionary_decode() if hasattr(values, "dictionary_decode") else values


def _is_in(values: Any, known: list[Any]) -> Any:
    import pyarrow

    return _compute().is_in(values, value_set=pyarrow.array(known))


class OfFields:
    """Base class of operations on columns that look at the fields of elements.

    Attributes:
      takes_records: True if an operation may be applied to all elements with named fields.
      makes_elements: True if the elements after it depend on nothing besides the expressions.
      columns: its expressions over the fields.
    """

    takes_records = True
    makes_elements = False
    is_needed: bool = True
    columns: Any

    def takes(self, bundle: ColumnBundle) -> bool:
        """Return True if it can be applied to the columns of a bundle."""
        # Dictionaries have no attributes.
        return bundle.has_fields and (self.is_needed or bundle.elements is not as_dicts)


@frozen(eq=False)
class Projection(OfFields):
    """Operation on columns: each element becomes another, of computed columns.

    Attributes:
      elements: makes the elements.
      is_needed: True if it has no other form.  Otherwise it takes the attributes of elements.
    """

    fields: tuple[tuple[str, Column], ...]
    elements: Elements
    is_needed: bool = True
    makes_elements = True
    columns = property(lambda self: [column for _, column in self.fields])

    def apply(self, bundle: ColumnBundle) -> Bundle:
        """Return the bundle after this operation.  Raises `ColumnError`."""
        import pyarrow

        n = len(bundle)
        if changed := changed_fields(bundle, self.columns):
            return self._applied_to_given(bundle, changed)
        columns = [_array(_computed(column, bundle), n) for _, column in self.fields]
        # Groupings take keys with a dictionary.
        width = self.elements.width if isinstance(self.elements, Pairs) else 0
        columns[width:] = map(_decoded, columns[width:])
        batch = pyarrow.RecordBatch.from_arrays(columns, [name for name, _ in self.fields])
        return bundle.with_batch(batch, self.elements)

    def _applied_to_given(self, bundle: ColumnBundle, changed: set[str]) -> Bundle:
        """Return a bundle whose elements have the values of these fields as they were given."""
        records = [_fields(value) for value in bundle.values]
        kept = {name: [record.get(name) for record in records] for name in changed}
        columns = []
        for column in self.columns:
            (name,) = column.fields if column.is_field else ("",)
            computed = kept.get(name)
            if computed is None:
                computed = values_of(_decoded(_array(_computed(column, bundle), len(bundle))))
            columns.append(computed)
        elements = self.elements(ValueColumns([name for name, _ in self.fields], columns, len(bundle)))
        return Bundle(elements, bundle.timestamps, bundle.windows, bundle.panes, bundle.signs)


@frozen(eq=False)
class Selection(OfFields):
    """Operation on columns: the elements for which a computed column is true."""

    mask: Column
    is_needed: bool = True
    columns = property(lambda self: [self.mask])

    def apply(self, bundle: ColumnBundle) -> ColumnBundle:
        """Return the bundle after this operation.  Raises `ColumnError`."""
        from pyarrow import types

        mask = _array(_computed(self.mask, bundle), len(bundle))
        if not types.is_boolean(mask.type):
            raise ColumnError(f"{self.mask.text} is of the type {mask.type}; expected true or false")
        return bundle.where(mask)


@frozen(eq=False)
class Stamps(OfFields):
    """Operation on columns: event times, in seconds or as Arrow timestamps, from a column."""

    column: Column
    is_needed: bool = True
    columns = property(lambda self: [self.column])

    def apply(self, bundle: ColumnBundle) -> ColumnBundle:
        """Return the bundle after this operation.  Raises `ColumnError`, and the errors of `Timestamp`."""
        column = _array(_computed(self.column, bundle), len(bundle))
        return bundle.with_times(micros_of_column(column), bundle.assigned)


@frozen(eq=False)
class Rearrangement:
    """Operation on columns: other elements of the same columns, or of fewer.

    Attributes:
      change: returns the record batch and what makes the elements, of those before.
      of_pairs: True if it takes pairs only.
    """

    change: Callable[[Any, Any], tuple[Any, Elements]]
    of_pairs: bool = True
    takes_records = False
    is_needed = False

    def takes(self, bundle: ColumnBundle) -> bool:
        """Return True if it can be applied to the columns of a bundle."""
        return not bundle.has_elements and (not self.of_pairs or isinstance(bundle.elements, Pairs))

    def apply(self, bundle: ColumnBundle) -> ColumnBundle:
        """Return the bundle after this operation."""
        return bundle.with_batch(*self.change(bundle.batch, bundle.elements))


class ValuesOfPairs(Rearrangement):
    """Operation on columns: the values of pairs."""

    def takes(self, bundle: ColumnBundle) -> bool:
        # Groups have values of other kinds.
        return super().takes(bundle) and bundle.elements.values in _PLAIN  # type: ignore[attr-defined]


def values_of_pairs() -> ValuesOfPairs:
    """Return the operation that leaves out the keys of pairs."""
    return ValuesOfPairs(_values)


def _values(batch: Any, of: Any) -> tuple[Any, Elements]:
    return of.values_of(batch), of.values


# The kinds of values that columns hold for themselves.
_PLAIN = (as_rows, as_dicts, as_values, of_columns)

ColumnOperation: TypeAlias = OfFields | Rearrangement


def _computed(column: Column, bundle: ColumnBundle) -> Any:
    import pyarrow

    try:
        return column.values(bundle.batch)
    except (pyarrow.ArrowException, FloatingPointError, OverflowError) as error:
        raise ColumnError(f"{column.text} can't be computed: {error}") from error


def _array(values: Any, n: int) -> Any:
    """Return values as an Arrow array of this length."""
    import pyarrow

    if isinstance(values, pyarrow.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pyarrow.Array):
        if len(values) != n:
            raise ColumnError(f"a function returned {len(values)} values for {n} elements")
        return values
    return pyarrow.repeat(values, n)


def micros_of_column(column: Any) -> Any:
    """Return event times as a NumPy array of microseconds.

    Args:
      column: a `pyarrow.Array` of seconds, of Arrow timestamps, or of what else `Timestamp.of` takes.

    Raises `ColumnError` for a null, and the errors of `Timestamp`.
    """
    import numpy
    from pyarrow import types

    if column.null_count:
        raise ColumnError("the event time of an element is null; expected seconds or a timestamp")
    if types.is_integer(column.type):
        seconds = column.to_numpy(zero_copy_only=False).astype(numpy.int64, copy=False)
        least, most = (seconds.min(), seconds.max()) if len(seconds) else (0, 0)
        in_range(int(least) * MICROS_PER_SECOND)
        in_range(int(most) * MICROS_PER_SECOND)
        return seconds * MICROS_PER_SECOND
    if types.is_timestamp(column.type):
        column = column.cast("timestamp[us]" if column.type.tz is None else f"timestamp[us, tz={column.type.tz}]")
        return column.cast("int64").to_numpy(zero_copy_only=False)
    return numpy.array([in_range(micros_of(value)) for value in column.to_pylist()], numpy.int64)


def changed_fields(bundle: ColumnBundle, columns: Iterable[Column]) -> set[str]:
    """Return the fields among these columns whose values aren't the ones of the elements, which were given."""
    told = (bundle.batch.schema.metadata or {}).get(_CHANGED, b"") if bundle.has_given_elements else b""
    names = {name for column in columns if column.is_field for name in column.fields} if told else set()
    return names.intersection(told.decode().split("\0"))


# Classes whose values Arrow gives back as they were.
_KEPT = frozenset({bool, int, float, str, bytes, date})


def _is_kept(values: list[Any]) -> bool:
    """Return True if the values of a field are the same behind Arrow: a whole number beside others is not."""
    kinds = {*map(type, values)} - {type(None)}
    return len(kinds) <= 1 and kinds <= _KEPT


class ValueColumns:
    """Columns of Python's values, of which elements are made as of a record batch.

    >>> as_rows(ValueColumns(["a", "b"], [[1, 2], [{"x": 1}, {}]], 2))
    [Row(a=1, b={'x': 1}), Row(a=2, b={})]
    """

    def __init__(self, names: list[str], columns: list[list[Any]], num_rows: int) -> None:
        self.names = names
        self.columns = columns
        self.num_rows = num_rows
        self.num_columns = len(columns)
        self.schema = self

    def column(self, index: int) -> list[Any]:
        return self.columns[index]

    def select(self, indices: list[int]) -> ValueColumns:
        return ValueColumns([self.names[i] for i in indices], [self.columns[i] for i in indices], self.num_rows)


def bundle_of_records(values: list[Any]) -> ColumnBundle:
    """Return elements with named fields as a bundle of columns.

    Fields whose values have no common Arrow type are left out; `_field` tells why.  Raises `ColumnError` for other
    elements.
    """
    import pyarrow

    records = [_fields(value) for value in values]
    columns, told, changed = {}, {}, []
    for name in records[0] if records else ():
        own = [record.get(name) for record in records]
        if not _is_kept(own):
            changed.append(name)
        try:
            columns[name] = array_of(own)
        except (pyarrow.ArrowException, OverflowError) as error:
            told[f"{_WITHOUT}{name}"] = str(error)
    if not columns:
        # A batch has the length of its columns.
        columns[_WITHOUT] = pyarrow.nulls(len(records))
    batch = pyarrow.RecordBatch.from_pydict(columns).replace_schema_metadata(told or None)
    return given(ColumnBundle(batch, as_rows), values, changed)


def given(bundle: ColumnBundle, values: list[Any], changed: list[str]) -> ColumnBundle:
    """Return a bundle whose elements were given.

    Args:
      changed: the fields for which the columns have other values than the elements.
    """
    if not changed:
        return bundle.with_values(values)
    told = (bundle.batch.schema.metadata or {}) | {_CHANGED: "\0".join(changed).encode()}
    batch = bundle.batch.replace_schema_metadata(told)
    return bundle.with_batch(batch, bundle.elements).with_values(values)


# Before the name of a field that isn't a column, in the metadata of a batch.
_WITHOUT = "penstock.without."
# The fields whose values Arrow changes, in the metadata of a batch.
_CHANGED = b"penstock.changed"


def _fields(value: Any) -> dict[str, Any]:
    fields = fields_of(value)
    if fields is None:
        raise ColumnError(
            f"expected an element with named fields (a Row, a named tuple, a dataclass), got {value!r:.60}"
        )
    return fields
