"""PCollection, and the other inputs and outputs of transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, LiteralString, Never, Protocol, TypeVar, overload

from ..windowing.duration import Duration
from . import graph
from .adapters import typehint_of
from .errors import NoPCollectionError, PipelineError, UnknownTagError
from .options import PipelineOptions, TypeOptions
from .runner import Runner
from .type_variables import T_co
from .typehints.forms import constraint_of
from .windowing_strategy import DEFAULT_WINDOWING, WindowingStrategy

if TYPE_CHECKING:
    from os import PathLike

    from ..windowing.timestamped_value import TimestampedValue
    from .static_types import (
        Applicable,
        ApplicableToElements,
        Elementwise,
        GroupsElements,
        KeepsElements,
        OfWholeInput,
        PairsElements,
        Refused,
        Same,
        SplitsElements,
        Unannotated,
    )

    OutputT = TypeVar("OutputT")


# Mypy takes it as true.
MYPY = False

# In the place of what hasn't been looked for.
NOT_KNOWN: Any = ...

# Returns sdk/runs/preview.py, which imports this module.
_preview: Callable[[], Any]


def previews(function: Callable[[], Any]) -> Callable[[], Any]:
    """Register the function that returns the module which computes the elements of a PCollection outside of a run."""
    global _preview
    _preview = function
    return function


class PipelineUnderConstruction(Protocol):
    """The methods of a `Pipeline` that transforms call while they are expanded."""

    options: PipelineOptions
    result: Any
    runner: Runner
    type_options: TypeOptions

    @property
    def applied_labels(self) -> set[str]:
        """The full labels of the transforms that were applied."""
        ...

    def __or__(self, transform: Any) -> Any: ...

    def apply(self, transform: Any, pvalue: Any = None, label: str | None = None) -> Any:
        """Apply a transform to a PCollection, to several, or to the pipeline itself."""

    def add(
        self,
        primitive: graph.Primitive,
        inputs: Sequence[PCollection[Any]],
        windowing: WindowingStrategy,
        element_type: Any = Any,
        tags: Sequence[str | None] = (None,),
        is_bounded: bool | None = None,
    ) -> dict[str | None, PCollection[Any]]:
        """Add one primitive under the label of the transform that is being expanded, and return its outputs by tag."""
        ...

    def add_output(self, main: PCollection[Any], tag: str | None) -> PCollection[Any]:
        """Add a tagged output to the transform whose main output is `main`."""
        ...

    def producer(self, pcoll: PCollection[Any]) -> graph.Transform:
        """Return the primitive whose output a PCollection is."""
        ...

    def pcollection(self, id: int) -> PCollection[Any]:
        """Return the PCollection with this number."""
        ...

    def add_check(self, check: Callable[[], None]) -> None:
        """Call `check` before the pipeline is run; it raises if the pipeline isn't complete."""

    def in_place_of_this(self, build: Callable[[], Any]) -> Callable[[], Any]:
        """Return a function that replaces what the present transform is composed of by what `build` applies."""
        ...

    @property
    def full_label(self) -> str:
        """The full label of the transform that is being expanded."""
        ...

    def outline(self) -> graph.Graph:
        """Return the graph without pickling the user's functions."""
        ...


class PValue:
    """Base class of the inputs and outputs of transforms."""

    def __init__(
        self,
        pipeline: PipelineUnderConstruction,
        tag: str | None = None,
        element_type: Any = None,
        windowing: WindowingStrategy | None = None,
        is_bounded: bool = True,
    ) -> None:
        self.pipeline = pipeline
        self.tag = tag
        self.element_type = element_type
        self.is_bounded = is_bounded
        self.producer: Any = None
        if windowing is not None:
            self.windowing = windowing

    def __or__(self, transform: Any) -> Any:
        return self.pipeline.apply(transform, self)

    def apply(self, *args: Any, **kwargs: Any) -> Any:
        """Apply a transform, with an optional label: `pcoll.apply(transform, "label")`."""
        return self.pipeline.apply(args[0], self, *args[1:], **kwargs)


class _WithoutElements(PValue):
    """A value without elements, on whose type, windows and bounds Beam's further arguments have no effect."""

    def __init__(
        self,
        pipeline: PipelineUnderConstruction,
        tag: str | None = None,
        element_type: Any = None,
        windowing: WindowingStrategy | None = None,
        is_bounded: bool = True,
    ) -> None:
        self.pipeline = pipeline


class PBegin(_WithoutElements):
    """The input of a pipeline's first transforms."""

    if TYPE_CHECKING:

        @overload
        def __or__(self, transform: Unannotated[PBegin, OutputT]) -> OutputT: ...
        @overload
        def __or__(self, transform: Applicable[PBegin, OutputT]) -> OutputT: ...
        def __or__(self, transform: Any) -> Any: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NoPCollectionError(f"{self.pipeline.full_label}: it takes a PCollection. Got a PBegin/Pipeline instead.")

    def __repr__(self) -> str:
        return "PBegin"


class PDone(_WithoutElements):
    """The output of a transform without elements, such as a write.

    A composite can be applied to it that uses only its `pipeline`.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise PipelineError(f"{self.pipeline.full_label}: a write has no output that a transform could be applied to")

    def __repr__(self) -> str:
        return "PDone"


class PCollection(PValue, Generic[T_co]):
    """A collection of elements, each with an event timestamp, windows and a pane.

    Transforms make them.  One that a program makes has no producer, and no transform can be applied to it.

    Attributes:
      id: its number in the pipeline.
      producer_label: the full label of the transform that produces it.
      producer: that transform in its place, an `AppliedPTransform`; None before it is applied.
      tag: the tag of that transform's output; None for the main output.
      windowing: its windowing strategy.
      element_type: the type of its elements: a class, or one of Beam's constraints, such as a `TupleConstraint`.
      hint: the same type as a hint of `typing`; `Any` if unknown.
      is_bounded: whether it is bounded.
      retracted_by: the full label of the grouping that may retract its elements; "" if none does.
      retractable_for: how long after the end of its window an element may still be retracted; None without a limit.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> words = p | beam.Create(["to be", "or"]) | "Split" >> beam.FlatMap(str.split)
    >>> words.producer_label, words.element_type, words.is_bounded
    ('Split', <class 'str'>, True)
    >>> lengths = words | beam.Map(lambda word: (word, len(word)))
    >>> lengths.element_type, lengths.hint
    (Tuple[<class 'str'>, <class 'int'>], tuple[str, int])
    """

    def __init__(
        self,
        pipeline: PipelineUnderConstruction,
        tag: str | None = None,
        element_type: Any = None,
        windowing: WindowingStrategy | None = None,
        is_bounded: bool = True,
        *,
        id: int = -1,
        producer: str = "",
        retracted_by: str = "",
        retractable_for: Duration | None = None,
    ) -> None:
        super().__init__(pipeline, tag, element_type, windowing or DEFAULT_WINDOWING, is_bounded)
        self.retracted_by = retracted_by
        self.retractable_for = retractable_for
        self.id = id
        self.producer_label = producer
        # Whether `element_type` was declared for it, and not inferred.
        self.has_declared_type = False
        # Whether a write publishes it, which a run for this PCollection alone would repeat.
        self.is_written = False
        # Whether each value has all elements of a side input.
        self.has_contents = False
        # The output of the grouping whose panes its elements have; None without one.
        self.grouping: Any = NOT_KNOWN

    if MYPY:
        # For the protocol `OfElements`.
        def _elements(self) -> list[T_co]: ...

        @overload
        def __or__(self, transform: Unannotated[PCollection[T_co], OutputT]) -> OutputT: ...
        @overload
        def __or__(self, transform: ApplicableToElements[T_co, PCollection[T_co], OutputT]) -> OutputT: ...
        @overload
        def __or__(
            self, transform: Elementwise[PCollection[T_co], PCollection[TimestampedValue[OutputT]]]
        ) -> PCollection[OutputT]: ...
        @overload
        def __or__(self, transform: Elementwise[PCollection[T_co], PCollection[OutputT]]) -> PCollection[OutputT]: ...
        @overload
        def __or__(self, transform: OfWholeInput[PCollection[T_co], OutputT]) -> OutputT: ...
        @overload
        def __or__(self, transform: Refused[Never]) -> Any: ...
        def __or__(self, transform: Any) -> Any: ...
    elif TYPE_CHECKING:
        # Pyright infers no generic method of an element that is a type variable.

        @overload
        def __or__(self, transform: Unannotated[PCollection[T_co], OutputT]) -> OutputT: ...
        @overload
        def __or__(self, transform: KeepsElements[T_co, Same]) -> PCollection[T_co]: ...
        @overload
        def __or__(self, transform: KeepsElements[T_co, OutputT]) -> PCollection[OutputT]: ...
        @overload
        def __or__(self, transform: PairsElements[T_co, OutputT]) -> PCollection[tuple[OutputT, T_co]]: ...
        @overload
        def __or__(self, transform: GroupsElements[T_co, OutputT]) -> PCollection[tuple[OutputT, Iterable[T_co]]]: ...
        @overload
        def __or__(self, transform: SplitsElements[T_co]) -> tuple[PCollection[T_co], ...]: ...
        @overload
        def __or__(
            self, transform: Elementwise[PCollection[T_co], PCollection[TimestampedValue[OutputT]]]
        ) -> PCollection[OutputT]: ...
        @overload
        def __or__(self, transform: Elementwise[PCollection[T_co], PCollection[OutputT]]) -> PCollection[OutputT]: ...
        @overload
        def __or__(self, transform: OfWholeInput[PCollection[T_co], OutputT]) -> OutputT: ...
        # `os.path.basename`, `os.path.join` and `", ".join`, of which Pyright takes the first signature.
        @overload
        def __or__(
            self: PCollection[str], transform: Elementwise[PCollection[PathLike[str]], PCollection[OutputT]]
        ) -> PCollection[OutputT]: ...
        @overload
        def __or__(
            self: PCollection[str], transform: Elementwise[PCollection[LiteralString], PCollection[LiteralString]]
        ) -> PCollection[str]: ...
        @overload
        def __or__(
            self: PCollection[Iterable[str]],
            transform: Elementwise[PCollection[Iterable[LiteralString]], PCollection[LiteralString]],
        ) -> PCollection[str]: ...
        @overload
        def __or__(self, transform: Refused[Never]) -> Any: ...
        def __or__(self, transform: Any) -> Any: ...

    @property
    def element_type(self) -> Any:
        """The type of its elements, as Beam has it: a class or a constraint."""
        return constraint_of(self.hint)

    @element_type.setter
    def element_type(self, value: Any) -> None:
        self.hint: Any = Any if value is None else typehint_of(value)

    @property
    def checked_type(self) -> Any:
        """The hint that transforms of its elements are checked for: `Any` with `--no_pipeline_type_check`."""
        return self.hint if self.pipeline.type_options.pipeline_type_check else Any

    def __repr__(self) -> str:
        name = self.producer_label if self.tag is None else f"{self.producer_label}[{self.tag}]"
        return f"PCollection[{name}]"

    # Type checkers know that it can't be iterated over.
    if not TYPE_CHECKING:

        def __iter__(self):
            raise TypeError(
                f"{self!r} can't be iterated over: its elements exist only while the pipeline runs; collect(pcoll) "
                "runs it"
            )

    def to_pandas(self) -> Any:
        """Return the elements as a `pandas.DataFrame`, by running what they depend on.

        Fields are columns; the items of tuples are the columns "0", "1" and so on, and other values the column "value".
        Needs pandas (extra `dataframes`).  Raises `UnsupportedError` as `penstock.collect` does.

        >>> import penstock as beam
        >>> p = beam.Pipeline()
        >>> sales = p | beam.Create([beam.Row(item="tea", cups=2), beam.Row(item="milk", cups=1)])
        >>> sales.to_pandas()
           item  cups
        0   tea     2
        1  milk     1
        """
        return _preview().to_pandas(self)

    def _repr_html_(self) -> str:
        return _preview().to_html(self)  # type: ignore[no-any-return]

    def show(self, n: int = 20) -> None:
        """Display the first elements, by running what they depend on: a table in a notebook, otherwise text."""
        _preview().show(self, n)


class WriteOutput(PCollection[T_co]):
    """The output of a write: a PCollection that the pipeline produces once a transform is applied to it.

    Args:
      publish: applies the transforms that write and produce the PCollection, in place of those that only write.
    """

    def __init__(
        self,
        pipeline: PipelineUnderConstruction,
        publish: Callable[[], PCollection[T_co]],
        windowing: WindowingStrategy,
        element_type: Any,
        is_bounded: bool,
    ) -> None:
        self._publish = publish
        self._published: PCollection[T_co] | None = None
        super().__init__(pipeline, None, element_type, windowing, is_bounded, producer=pipeline.full_label)

    @property
    def id(self) -> int:
        """Its number in the pipeline."""
        if self._published is None:
            self._published = self._publish()
            self._published.is_written = True
        return self._published.id

    @id.setter
    def id(self, value: int) -> None:
        """Ignore the number given when a PCollection is made."""


class DoOutputsTuple(Generic[T_co]):
    """The outputs of a ParDo, by tag: `outputs.errors`, `outputs["errors"]`, or unpacked in order.

    As in Beam, unpacking includes the main output only if `with_outputs` gave it a name.  An int stands for the tag
    with the same digits.
    """

    def __init__(
        self,
        outputs: dict[str | None, PCollection[Any]],
        main_tag: str | None,
        any_tag: bool = False,
        types: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._outputs = outputs
        self._main_tag = main_tag
        self._any_tag = any_tag
        self._types = types

    @property
    def pipeline(self) -> PipelineUnderConstruction:
        return next(iter(self._outputs.values())).pipeline

    def by_tag(self) -> dict[str | None, PCollection[Any]]:
        """Return all outputs by tag, the main output under its name or None."""
        return {self._main_tag if tag is None else tag: pcoll for tag, pcoll in self._outputs.items()}

    def __iter__(self) -> Iterator[PCollection[Any]]:
        return iter([pcoll for tag, pcoll in self.by_tag().items() if tag is not None])

    def __len__(self) -> int:
        return len(self._outputs) - (self._main_tag is None)

    @overload
    def __getitem__(self, tag: None) -> PCollection[T_co]: ...
    @overload
    def __getitem__(self, tag: int | str) -> PCollection[Any]: ...
    def __getitem__(self, tag: int | str | None) -> PCollection[Any]:
        if isinstance(tag, int):
            tag = str(tag)
        if tag == self._main_tag or tag is None:
            tag = None
        if self._any_tag and tag not in self._outputs:
            self._outputs[tag] = self.pipeline.add_output(self._outputs[None], tag)
            self._outputs[tag].hint = self._types.get(str(tag), Any)
        try:
            return self._outputs[tag]
        except KeyError:
            known = [t or self._main_tag for t in self._outputs]
            raise UnknownTagError(f"there is no output tagged {tag!r}; with_outputs names {known}") from None

    def __getattr__(self, tag: str) -> PCollection[Any]:
        if tag.startswith("_"):
            raise AttributeError(tag)
        try:
            return self[tag]
        except PipelineError as error:
            raise AttributeError(str(error)) from None

    def __or__(self, transform: Applicable[tuple[PCollection[Any], ...], OutputT]) -> OutputT:
        return self.pipeline.apply(transform, tuple(self))  # type: ignore[no-any-return]


if TYPE_CHECKING:
    # What can be unpacked into a named main output and other ones.
    class MainAndOne(DoOutputsTuple[T_co], tuple[PCollection[T_co], PCollection[Any]]): ...  # type: ignore[misc]

    # The outputs of exception handling.
    class GoodAndBad(  # type: ignore[misc]
        DoOutputsTuple[T_co], tuple[PCollection[T_co], PCollection[tuple[Any, Any]]]
    ): ...

    class MainAndTwo(  # type: ignore[misc]
        DoOutputsTuple[T_co], tuple[PCollection[T_co], PCollection[Any], PCollection[Any]]
    ): ...

    class MainAndThree(  # type: ignore[misc]
        DoOutputsTuple[T_co], tuple[PCollection[T_co], PCollection[Any], PCollection[Any], PCollection[Any]]
    ): ...
