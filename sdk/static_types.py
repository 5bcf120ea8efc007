"""Types for type checkers: what `|` can be applied to, and functions of elements.

No module imports this one at run time.  `docs/howto/types.md` describes what is checked.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from os import PathLike
from typing import (
    Any,
    ClassVar,
    Concatenate,
    Literal,
    LiteralString,
    Never,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    overload,
)
from uuid import UUID

from .elements.element_wrappers import Retracted, TaggedOutput, WindowedValue
from .elements.row import Row

A = TypeVar("A")
B = TypeVar("B")
X = TypeVar("X")
P = ParamSpec("P")
ElementT = TypeVar("ElementT")
ElementT_contra = TypeVar("ElementT_contra", contravariant=True)
InputT = TypeVar("InputT")
InputT_contra = TypeVar("InputT_contra", contravariant=True)
OutputT_co = TypeVar("OutputT_co", covariant=True)
ResultT_co = TypeVar("ResultT_co", covariant=True)


class Applicable(Protocol[InputT_contra, OutputT_co]):
    """A transform that takes this input and has this output, by its `expand`, which may be generic."""

    def expand(self, input_or_inputs: InputT_contra, /) -> OutputT_co: ...


class Unannotated(Protocol[InputT_contra, OutputT_co]):
    """A transform whose `expand` says nothing of its result, so that its class does: `PTransform[Input, Output]`.

    Only a result of an unknown type passes for one of `Never`.
    """

    def expand(self, input_or_inputs: Any, /) -> Never: ...

    def _declares(self, input_or_inputs: InputT_contra, /) -> OutputT_co: ...


class OfWholeInput(Applicable[InputT_contra, OutputT_co], Protocol):
    """A transform that isn't `ApplicableToElements`.  Its class takes the input as well as its `expand`."""

    def _expands(self) -> None: ...

    def _declares(self, input_or_inputs: InputT_contra, /) -> object: ...


class ApplicableToElements(Protocol[ElementT_contra, InputT_contra, OutputT_co]):
    """A transform whose output is made of its input's type, by a function of its elements: Filter, WithKeys, Partition.

    `_takes` infers the type of the function's parameter, and `_gives` the output even if that type is unknown.
    """

    def _takes(self, element: ElementT_contra, /) -> None: ...

    def _gives(self, pcoll: InputT_contra, /) -> OutputT_co: ...


class KeepsElements(Protocol[ElementT_contra, ResultT_co]):
    """`Filter` or `WithTimestamps` in Pyright: the result's elements, or `Same`."""

    def _takes(self, element: ElementT_contra, /) -> None: ...

    def _keeps(self) -> ResultT_co: ...


class PairsElements(Protocol[ElementT_contra, ResultT_co]):
    """`WithKeys` in Pyright."""

    def _takes(self, element: ElementT_contra, /) -> None: ...

    def _pairs(self) -> ResultT_co: ...


class GroupsElements(Protocol[ElementT_contra, ResultT_co]):
    """`GroupBy` in Pyright."""

    def _takes(self, element: ElementT_contra, /) -> None: ...

    def _groups(self) -> ResultT_co: ...


class SplitsElements(Protocol[ElementT_contra]):
    """`Partition` in Pyright."""

    def _takes(self, element: ElementT_contra, /) -> None: ...

    def _splits(self) -> None: ...


class Elementwise(Applicable[InputT_contra, OutputT_co], Protocol):
    """A transform whose outputs may be wrapped, as in a `TimestampedValue`."""

    def _unwraps(self) -> None: ...


class Result:
    """A stand-in for the result of a function, in messages of mypy."""


class Unlike:
    """A type that only an unknown type fits."""


class OfInput(Protocol[InputT, OutputT_co]):
    """A transform of exactly this input, by its class.

    Mypy infers `"label" >> transform` without the left side of `|`.  Of a generic transform's elements it then knows
    nothing, which is `Never`, or `Result`.
    """

    def _accepts(self) -> list[InputT]: ...

    def expand(self, input_or_inputs: Any, /) -> OutputT_co: ...


class ElementwiseOfInput(OfInput[InputT, OutputT_co], Protocol):
    """Such a transform that is `Elementwise`."""

    def _unwraps(self) -> None: ...


class OfElements(Protocol[ElementT]):
    """A PCollection of exactly these elements, and of none of a type derived from theirs."""

    def _elements(self) -> list[ElementT]: ...


class Refused(Protocol[ResultT_co]):
    """No transform, as `Refused[Never]`.  Mypy says what is wrong by a signature that fits but for its types."""

    def _refuses(self) -> ResultT_co: ...


class Process(Protocol[ElementT_contra, P, ResultT_co]):
    """A DoFn whose `process` takes this element and these further arguments, and whose class takes the element."""

    def _declares(self, element: ElementT_contra, /) -> object: ...

    def process(self, element: ElementT_contra, /, *args: P.args, **kwargs: P.kwargs) -> ResultT_co: ...


class ProcessWithKeywords(Protocol[ElementT_contra, ResultT_co]):
    """A DoFn whose `process` takes this element and any keyword arguments, with which mypy matches no `Process`."""

    def _declares(self, element: ElementT_contra, /) -> object: ...

    def process(self, element: ElementT_contra, /, *, any_name: Any) -> ResultT_co: ...


class UnannotatedProcess(Protocol[ElementT_contra, ResultT_co]):
    """A DoFn whose `process` says nothing of its result, so that its class does: `DoFn[Element, Output]`."""

    def process(self, element: Any, /, *args: Any, **kwargs: Any) -> Never: ...

    def _declares(self, element: ElementT_contra, /) -> ResultT_co: ...


class DoFnOf(Protocol[ElementT_contra]):
    """A DoFn of such elements, in messages of mypy."""

    def _declares(self, element: ElementT_contra, /) -> object: ...

    def process(self, element: ElementT_contra, /) -> Outputs[Any]: ...


class ClassInPlaceOfInstance:
    """A stand-in for the elements of a DoFn whose class is given to a ParDo, in messages."""


# What `process` returns for outputs of a type.
Outputs: TypeAlias = (
    Iterable[ElementT | TaggedOutput | Retracted | WindowedValue]
    | AsyncIterable[ElementT | TaggedOutput | Retracted | WindowedValue]
    | Awaitable[Iterable[ElementT | TaggedOutput | Retracted | WindowedValue] | None]
    | None
)


class Summable:
    """A stand-in for the elements that `sum`, `min` and `max` combine to one of their type."""

    def __add__(self, other: Any) -> Summable:
        raise NotImplementedError

    def __radd__(self, other: Any) -> Summable:
        raise NotImplementedError

    def __lt__(self, other: Any) -> bool:
        raise NotImplementedError

    def __gt__(self, other: Any) -> bool:
        raise NotImplementedError


class _OnlyLambdas(Protocol):
    _only_lambdas: Never


class _LambdaOfFew(_OnlyLambdas, Protocol):
    def __call__(self, element: Any, /, *args: Any, **kwargs: Any) -> Any: ...


class _LambdaOfMany(_OnlyLambdas, Protocol):
    def __call__(self, element: Any, a: Any, b: Any, /, *args: Any, **kwargs: Any) -> Any: ...


# The types that Pyright checks a lambda by: nothing else has them.  One of them is for up to two parameters.
# Pyright infers an operand of `|` without its left side, so the type of a lambda's parameter is unknown.  With
# `Callable` alone it would be a type variable, each use of which is an error.
Lambda: TypeAlias = _LambdaOfFew | _LambdaOfMany


class FunctionOfItems(Protocol):
    """A lambda of more than four parameters.  Mypy infers it without its context."""

    def __call__(self, a: Unlike, b: Unlike, c: Unlike, d: Unlike, e: Unlike, /, *args: Any, **kwargs: Any) -> Any: ...


class Same:
    """A stand-in for the elements of the input."""


# A function of an element of type A and further arguments P, with a result of type B.  Mypy takes each name `MYPY` as
# true, and infers the parameter of a lambda from the left side of `|`.
MYPY = False
if MYPY:
    from mypy_extensions import DefaultArg, NamedArg

    Function: TypeAlias = Callable[Concatenate[A, P], B]
    KeyFunction: TypeAlias = Callable[[A], B]
    # Mypy infers a lambda only from a function with as many defaults.  Where nothing says what A is, A would be
    # `Never`, but `A | Any` is `Any`.
    # With `**kwargs` in P, mypy accepts no call.  Only such a function takes an argument of any name.
    WithKeywords: TypeAlias = Callable[[A, NamedArg(Any, "any_name")], B]
    WithDefault: TypeAlias = Callable[[A | Any, DefaultArg(Any)], B]
    WithDefaults: TypeAlias = Callable[[A | Any, DefaultArg(Any), DefaultArg(Any)], B]
    WithThreeDefaults: TypeAlias = Callable[[A | Any, DefaultArg(Any), DefaultArg(Any), DefaultArg(Any)], B]
    WithArgumentAndDefaults: TypeAlias = Callable[[A | Any, X, DefaultArg(Any), DefaultArg(Any)], B]
    WithArgumentAndDefault: TypeAlias = Callable[[A | Any, X, DefaultArg(Any)], B]
    PairWithDefault: TypeAlias = Callable[[Any, Any, DefaultArg(Any)], B]
    PairWithDefaults: TypeAlias = Callable[[Any, Any, DefaultArg(Any), DefaultArg(Any)], B]
    PairWithKeywords: TypeAlias = Callable[[A, X, NamedArg(Any, "any_name")], B]
else:
    Function: TypeAlias = Lambda | Callable[Concatenate[A, P], B]
    WithDefault: TypeAlias = Callable[[A], B]
    WithKeywords: TypeAlias = Callable[[A], B]
    KeyFunction: TypeAlias = Lambda | Callable[[A], B]


# Elements whose items are arguments of a function: pairs, whose types count, and others.  With `tuple[Any, ...]` mypy
# wouldn't infer them.
Items: TypeAlias = (
    tuple[A, B]
    | tuple[Any, Any, Any]
    | tuple[Any, Any, Any, Any]
    | tuple[Any, Any, Any, Any, Any]
    | tuple[Any, Any, Any, Any, Any, Any]
    | tuple[Any, Any, Any, Any, Any, Any, Any]
    | tuple[Any, Any, Any, Any, Any, Any, Any, Any]
    | list[Any]
)


class Combiner(Protocol[ElementT_contra, ResultT_co]):
    """A `CombineFn` of elements of a type, by its `add_input`, with a result of a type, by its `extract_output`."""

    def add_input(self, accumulator: Any, element: ElementT_contra, /, *args: Any, **kwargs: Any) -> Any: ...

    def extract_output(self, accumulator: Any, /, *args: Any, **kwargs: Any) -> ResultT_co: ...


class Divisible(Protocol):
    """A number."""

    def __truediv__(self, other: Any, /) -> Any: ...


class GenericCombiner(Protocol[InputT, ResultT_co]):
    """A generic `CombineFn`, as `GenericCombiner[Never, R]`: mypy infers it without the elements."""

    def _accepts(self) -> list[InputT]: ...

    def extract_output(self, accumulator: Any, /, *args: Any, **kwargs: Any) -> ResultT_co: ...


# `sum`, `min`, `max`, and functions like them.
Fold: TypeAlias = Callable[[list[Summable]], Summable | Literal[0]]


class Summation(Protocol):
    """`sum`, which has a second parameter.  Without the left side of `|`, checkers take its first signature."""

    def __call__(self, values: Iterable[Summable], /, start: Summable) -> Summable: ...


# No function, and mypy infers no lambda for it.
NoLambda: TypeAlias = Callable[[Never, Never, Never, Never, Never, Never], Never]


class OfPath(Protocol):
    """`os.path.split` and `os.path.splitext`, whose first signature is of `PathLike`."""

    @overload
    def __call__(self, path: PathLike[str], /) -> tuple[str, str]: ...
    @overload
    def __call__(self, path: str, /) -> tuple[str, str]: ...


class Power(Protocol):
    """`pow`, of which Pyright takes a signature of literals."""

    def __call__(self, base: int, exp: int, mod: int) -> int: ...


class Formatting(Protocol):
    """`"...".format`, whose first signature is of literals."""

    @overload
    def __call__(self, value: LiteralString, /, *, _: LiteralString) -> LiteralString: ...
    @overload
    def __call__(self, value: object, /, *, _: object) -> str: ...


class Gradual(Protocol):
    """A function of any arguments with a result of an unknown type, such as a `partial` of one without annotations."""

    def __call__(self, value: Any, /, start: Any = ..., *, _: Any = ...) -> Unlike: ...


FunctionOfList: TypeAlias = Callable[Concatenate[list[A], ...], B]


class NamedTupleRecord(Protocol):
    """A named tuple."""

    def _asdict(self) -> dict[str, Any]: ...


class DataclassRecord(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class AttrsRecord(Protocol):
    """An instance of an attrs class."""

    __attrs_attrs__: ClassVar[Any]


class StructRecord(Protocol):
    """A `msgspec.Struct`."""

    __struct_fields__: ClassVar[tuple[str, ...]]


# A value with named fields, which sinks of tables take.
Record: TypeAlias = dict[str, Any] | NamedTupleRecord | DataclassRecord | AttrsRecord | StructRecord | Row


# A key that is no function.
ConstantKey: TypeAlias = (
    str | bytes | complex | tuple[Any, ...] | frozenset[Any] | date | timedelta | Decimal | Enum | UUID | Record | None
)


class CoderOf(Protocol[ResultT_co]):
    """A coder of values of this type, by its `decode`."""

    def decode(self, encoded: bytes, /) -> ResultT_co: ...


class SpecOf(Protocol[ResultT_co]):
    """The spec of a state of this type."""

    def of(self, store: Any, namespace: Any = None, key: Any = None, /) -> ResultT_co: ...
