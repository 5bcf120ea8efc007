"""PTransform: a step of a pipeline, primitive or composed of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from .names.extensions import added_attribute
from .type_variables import InputT, OutputT
from .typehints import declared_hints, declared_tags
from .typehints.decorators import given_inputs, of_annotations
from .typehints.expand_types import annotated_types, types_of_class
from .typehints.forms import io_hints, io_hints_of_built_in
from .typehints.simplified import declared
from .user_code.signatures import signature

if TYPE_CHECKING:
    from typing import Concatenate, Never, ParamSpec, TypeAlias, TypeVar

    from typing_extensions import TypeForm

    from .pvalue import PCollection
    from .static_results import OfAny, OfAnyKeys, OfAnyToAny, OfAnyValues, ToPairs, ToUnknown
    from .static_types import (
        Applicable,
        ApplicableToElements,
        Elementwise,
        ElementwiseOfInput,
        OfElements,
        OfInput,
        Result,
        Unannotated,
        Unlike,
    )

    A = TypeVar("A")
    B = TypeVar("B")
    C = TypeVar("C")
    D = TypeVar("D")
    P = ParamSpec("P")

    Unknown: TypeAlias = "PTransform[PCollection[Any], PCollection[Any]]"

# Applies a transform to a left operand of `|` that is no PValue, such as a list of values.
_apply_to_operand: Callable[[Any, PTransform], Any]


def applies_to_operands(function: Callable[[Any, PTransform], Any]) -> Callable[[Any, PTransform], Any]:
    """Register the function that applies a transform to a left operand of `|` that is no PValue.

    It builds pipelines, which are made of transforms, so it is registered instead of imported here.
    """
    global _apply_to_operand
    _apply_to_operand = function
    return function


class PTransform(Generic[InputT, OutputT]):
    """A step of a pipeline.  Composites define `expand` by other transforms.

    `PTransform[PCollection[str], PCollection[int]]` names the types of its input and output for type checkers.

    >>> import penstock as beam
    >>> class CountWords(beam.PTransform):
    ...     def expand(self, lines):
    ...         return lines | beam.FlatMap(str.split) | beam.combiners.Count.PerElement()
    >>> with beam.Pipeline() as p:
    ...     counts = p | beam.Create(["a b", "a"]) | CountWords() | beam.Map(print)
    ('a', 2)
    ('b', 1)
    """

    # Given by `"label" >> transform`.
    _label: str | None = None
    _input_hint: Any = None
    # The types of `with_input_types`, by position and by name.
    given_input_types: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), MappingProxyType({}))
    _output_hint: Any = None
    _tagged_hints: Mapping[str, Any] = MappingProxyType({})
    # Given by `with_delivery`.
    delivery: str | None = None
    # The pipeline of a transform without inputs.
    pipeline: Any = None
    # For a list on the left of `|`: whether its items are the inputs, as those of `Flatten`, or the elements of one.
    takes_listed_inputs: bool = False

    def __init__(self, label: str | None = None) -> None:
        self._label = label

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            # Methods of extensions.
            return added_attribute(self, name)

    @property
    def label(self) -> str:
        """This step's own part of its full label."""
        return self._label or self.default_label()

    @label.setter
    def label(self, value: str) -> None:
        self._label = value

    @property
    def given_label(self) -> str | None:
        """The label that the user gave this step."""
        return self._label

    def default_label(self) -> str:
        """Return the label of a transform without a given label."""
        return type(self).__name__

    # Pyright infers the type of a parameter without an annotation from this one, if it has this name.
    def expand(self, pcoll: InputT) -> OutputT:
        """Apply other transforms to the input, and return the output.

        The output is a PCollection, several in a tuple, list or dict, or any other object, None included.
        """
        raise NotImplementedError(f"{type(self).__name__}.expand")

    def with_input_types(self, *args: Any, **kwargs: Any) -> Self:
        """Declare the type of its input's elements.  A mismatch raises an error while the pipeline is built."""
        positional = tuple(map(declared, args))
        named = {name: declared(hint) for name, hint in kwargs.items()}
        self._input_hint = next(iter((*positional, *named.values())), None)
        self.given_input_types = positional, named
        return self

    def types_of_inputs(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Return the declared types of several inputs: by position in a tuple or list, and by key in a dict."""
        positional, named = self.given_input_types
        return (positional, named) if positional or named else given_inputs(self)

    @overload
    def with_output_types(self, hint: type[B], **tagged: Any) -> PTransform[InputT, PCollection[B]]: ...
    @overload
    def with_output_types(self, hint: TypeForm[B], **tagged: Any) -> PTransform[InputT, PCollection[B]]: ...
    @overload
    def with_output_types(self, hint: Any = None, **tagged: Any) -> PTransform[InputT, Any]: ...
    def with_output_types(self, hint: Any = None, **tagged: Any) -> Any:
        """Declare the type of its output's elements, and those of tagged outputs by tag."""
        self._output_hint = declared(hint)
        self._tagged_hints = {tag: declared(one) for tag, one in tagged.items()}
        return self

    @of_annotations
    def default_type_hints(self) -> Any:
        """Return the types of its elements, as Beam's `IOTypeHints`, by the annotations of `expand`.

        What a subclass returns counts before the annotations.
        """
        accepted, produced = annotated_types(type(self).expand)
        return io_hints(None if accepted is None else (accepted,), produced, {})

    def get_type_hints(self) -> Any:
        """Return the types of its elements as Beam's `IOTypeHints`."""
        accepted, produced = self.element_types()
        of_expand = annotated_types(type(self).expand)
        accepted = of_expand[0] if accepted is None else accepted
        produced = of_expand[1] if produced is None else produced
        hints = io_hints(None if accepted is None else (accepted,), produced, self.tagged_types())
        return hints.with_defaults(io_hints_of_built_in(self))

    def input_type_violation(self, label: str, expected: Any, found: Any, producer: str) -> str:
        """Return an error's text for an input whose elements have another type, in Beam's words.

        Args:
          label: the full label.
          expected, found: Beam's constraints.
          producer: the label of the transform that produces the input.
        """
        return (
            f"Input type hint violation at {label}: expected {expected!r}, got {found!r} "
            f"(produced by the transform {producer!r})"
        )

    def tagged_types(self) -> Mapping[str, Any]:
        """Return the declared types of tagged outputs by tag."""
        return self._tagged_hints or declared_tags(self)

    def element_types(self) -> tuple[Any, Any]:
        """Return the declared types of input and output, or None for undeclared ones.

        Those of `with_input_types` count first, then those of decorators, then the annotations of `expand`, then the
        parameters of the class, as in `PTransform[PCollection[str], PCollection[int]]`.
        """
        declared_input, declared_output = declared_hints(self)
        if declared_input is None or declared_output is None:
            kind: Any = type(self)
            annotated_input, annotated_output = types_of_class(kind, PTransform)
            declared_input = annotated_input if declared_input is None else declared_input
            declared_output = annotated_output if declared_output is None else declared_output
        return (
            self._input_hint if self._input_hint is not None else declared_input,
            self._output_hint if self._output_hint is not None else declared_output,
        )

    if TYPE_CHECKING:
        # For the protocols of `static_types`.
        def _declares(self, pcoll: InputT, /) -> OutputT: ...
        def _accepts(self) -> list[InputT]: ...
        def _expands(self) -> None: ...
        def _refuses(self) -> Result: ...

        # Methods of the extension for programs of Beam.
        def with_resource_hints(self, **hints: Any) -> Self: ...
        def get_resource_hints(self) -> dict[str, bytes]: ...
        def annotations(self) -> dict[str, Any]: ...

    def with_delivery(self, delivery: str) -> Self:
        """Declare the delivery of its outputs, for a pipeline with `--delivery=strong` or `weak`.

        Args:
          delivery: "strong": outputs are durable before they are delivered; or "weak": outputs are sent immediately,
            and after a failure may be delivered twice, or be replaced by others.

        Raises `ValueError` for other values.  Applies to the transforms that it is composed of, unless they declare
        another.

        >>> import penstock as beam
        >>> beam.Map(str.lower).with_delivery("weak").delivery
        'weak'

        Source: MillWheel, sections 5.3 and 5.4.
        """
        if delivery not in ("strong", "weak"):
            raise ValueError(f'{self.label}: with_delivery expected "strong" or "weak", got {delivery!r}')
        self.delivery = delivery
        return self

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show in a drawing of the pipeline."""
        return {}

    @overload
    def __or__(
        self: Applicable[A, PCollection[B]], other: ApplicableToElements[B, PCollection[B], C]
    ) -> PTransform[A, C]: ...
    @overload
    def __or__(self: Applicable[A, B], other: Applicable[B, C]) -> PTransform[A, C]: ...
    def __or__(self, other: Any) -> Any:
        if not isinstance(other, PTransform):
            return NotImplemented
        return ChainedPTransform(self, other)

    # What is unknown stays so behind a label.  Mypy takes the items of `Map(list)` for `Never`.
    @overload
    def __rrshift__(self: OfAnyToAny, label: str) -> OfAnyToAny: ...  # type: ignore[overload-overlap]
    @overload
    def __rrshift__(
        self: Elementwise[PCollection[Unlike], PCollection[list[Never]]], label: str
    ) -> PTransform[PCollection[Any], PCollection[list[Any]]]: ...
    @overload
    def __rrshift__(
        self: Elementwise[PCollection[Unlike], PCollection[set[Never]]], label: str
    ) -> PTransform[PCollection[Any], PCollection[set[Any]]]: ...
    @overload
    def __rrshift__(
        self: Elementwise[PCollection[Unlike], PCollection[dict[Never, Never]]], label: str
    ) -> PTransform[PCollection[Any], PCollection[dict[Any, Any]]]: ...
    # A generic function of pairs or dicts.
    @overload
    def __rrshift__(self: OfAny, label: str) -> OfAny: ...
    @overload
    def __rrshift__(self: OfInput[PCollection[Never], PCollection[Never]], label: str) -> Keeping: ...
    @overload
    def __rrshift__(self: OfInput[PCollection[Result], PCollection[Unlike]], label: str) -> Unknown: ...
    @overload
    def __rrshift__(self: OfInput[PCollection[Result], PCollection[Result]], label: str) -> Keeping: ...
    @overload
    def __rrshift__(self: OfInput[PCollection[tuple[Never, Never]], PCollection[Never]], label: str) -> Unknown: ...
    @overload
    def __rrshift__(self: ToPairs, label: str) -> PTransform[PCollection[Any], PCollection[tuple[Any, Any]]]: ...  # type: ignore[misc]
    @overload
    def __rrshift__(self: ToUnknown, label: str) -> Unknown: ...  # type: ignore[misc]
    @overload
    def __rrshift__(
        self: ElementwiseOfInput[PCollection[tuple[Never, Any]], B], label: str
    ) -> PTransform[PCollection[Any], B]: ...
    @overload
    def __rrshift__(
        self: ElementwiseOfInput[PCollection[tuple[Any, Never]], B], label: str
    ) -> PTransform[PCollection[Any], B]: ...
    @overload
    def __rrshift__(  # type: ignore[overload-overlap]
        self: ElementwiseOfInput[PCollection[dict[Never, Any]], B], label: str
    ) -> PTransform[PCollection[Any], B]: ...
    @overload
    def __rrshift__(self: OfAnyKeys, label: str) -> OfAnyKeys: ...  # type: ignore[overload-overlap]
    @overload
    def __rrshift__(self: OfAnyValues, label: str) -> OfAnyValues: ...  # type: ignore[overload-overlap]
    # Mypy knows nothing of the elements of a generic transform there.
    @overload
    def __rrshift__(self: OfInput[PCollection[Never], B], label: str) -> PTransform[PCollection[Any], B]: ...  # type: ignore[overload-overlap]
    @overload
    def __rrshift__(self: OfInput[PCollection[Iterable[Never]], B], label: str) -> PTransform[PCollection[Any], B]: ...  # type: ignore[overload-overlap]
    @overload
    def __rrshift__(self: OfInput[PCollection[list[Never]], B], label: str) -> PTransform[PCollection[Any], B]: ...  # type: ignore[overload-overlap]
    @overload
    def __rrshift__(self: OfInput[PCollection[Sequence[Never]], B], label: str) -> PTransform[PCollection[Any], B]: ...  # type: ignore[overload-overlap]
    # `Map(sum)`, of which mypy takes the first signature.
    @overload
    def __rrshift__(self: OfInput[PCollection[Iterable[bool]], PCollection[int]], label: str) -> Unknown: ...
    # A generic function of pairs, lists or dicts, of whose types mypy knows nothing there.
    @overload
    def __rrshift__(
        self: Elementwise[PCollection[tuple[Result, Result]], B], label: str
    ) -> PTransform[PCollection[Any], B]: ...
    @overload
    def __rrshift__(self: Elementwise[PCollection[list[Result]], B], label: str) -> PTransform[PCollection[Any], B]: ...
    @overload
    def __rrshift__(self, label: str) -> Self: ...
    def __rrshift__(self, label: str) -> Any:
        if not isinstance(label, str):
            raise TypeError(f"a label must be a str, got {label!r}")
        # It has the attributes of this transform.
        named: Any = _NamedPTransform(self, label)
        return named

    @overload
    def __ror__(self: Unannotated[dict[str, PCollection[A]], B], left: dict[str, PCollection[A]]) -> B: ...
    @overload
    def __ror__(self: Applicable[dict[str, PCollection[A]], B], left: dict[str, PCollection[A]]) -> B: ...
    @overload
    def __ror__(self: Applicable[tuple[PCollection[A], ...], B], left: tuple[PCollection[A], ...]) -> B: ...
    @overload
    def __ror__(self: Applicable[list[PCollection[A]], B], left: list[PCollection[A]]) -> B: ...
    # A tuple of any number of items, such as `tuple(line.split())`, may be a pair.
    @overload
    def __ror__(self: Applicable[PCollection[tuple[A, C]], B], left: OfElements[tuple[D, ...]]) -> B: ...
    @overload
    def __ror__(self: Applicable[PCollection[A], PCollection[B]], left: Iterable[A]) -> list[B]: ...
    @overload
    def __ror__(self: Applicable[dict[str, A], B], left: dict[str, A]) -> B: ...
    @overload
    def __ror__(self: Applicable[tuple[A, C], B], left: tuple[A, C]) -> B: ...
    @overload
    def __ror__(self: Applicable[tuple[A, C, D], B], left: tuple[A, C, D]) -> B: ...
    @overload
    def __ror__(self, left: Iterable[Any]) -> Any: ...
    def __ror__(self, left: Any) -> Any:
        return _apply_to_operand(left, self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}(PTransform) label=[{self.label}]>"


if TYPE_CHECKING:

    class Keeping(PTransform):
        """A transform whose outputs have the type of its inputs."""

        def expand(self, pcoll: PCollection[A]) -> PCollection[A]: ...


class ChainedPTransform(PTransform):
    """A chain of transforms as one: `first | second`."""

    def __init__(self, *parts: PTransform) -> None:
        super().__init__()
        self.parts = parts

    def default_label(self) -> str:
        return "|".join(part.label for part in self.parts)

    def expand(self, pcoll: Any) -> Any:
        for part in self.parts:
            pcoll = pcoll | part
        return pcoll

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, PTransform):
            return NotImplemented
        return ChainedPTransform(*self.parts, other)


class _NamedPTransform(PTransform):
    """A transform with another label; applying it applies the transform itself."""

    def __init__(self, transform: PTransform, label: str) -> None:
        super().__init__(label)
        self.transform = transform

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        attribute = getattr(self.transform, name)
        if not callable(attribute) or not name.startswith("with"):
            return attribute

        @wraps(attribute)
        def renamed(*args: Any, **kwargs: Any) -> Any:
            result = attribute(*args, **kwargs)
            return _NamedPTransform(result, self.label) if isinstance(result, PTransform) else result

        return renamed

    def with_input_types(self, *args: Any, **kwargs: Any) -> Any:
        return _NamedPTransform(self.transform.with_input_types(*args, **kwargs), self.label)

    def with_output_types(self, hint: Any = None, **tagged: Any) -> Any:
        return _NamedPTransform(self.transform.with_output_types(hint, **tagged), self.label)

    def get_type_hints(self) -> Any:
        return self.transform.get_type_hints()

    def display_data(self) -> dict[str, Any]:
        return self.transform.display_data()

    def with_delivery(self, delivery: str) -> Any:
        return _NamedPTransform(self.transform.with_delivery(delivery), self.label)

    def expand(self, input_or_inputs: Any) -> Any:
        return self.transform.expand(input_or_inputs)


def unnamed(transform: PTransform) -> tuple[PTransform, str]:
    """Return the transform without its `_NamedPTransform`s, and its label."""
    label = transform.label
    while isinstance(transform, _NamedPTransform):
        transform = transform.transform
    return transform, label


class _FnPTransform(PTransform):
    """Transform of a function decorated with `ptransform_fn`."""

    def __init__(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], decorated: Callable[..., Any]
    ) -> None:
        super().__init__()
        self._fn = fn
        self._args = args
        self._kwargs = kwargs
        # The function with the types that decorators before and behind `ptransform_fn` declare.
        self._decorated = decorated

    def element_types(self) -> tuple[Any, Any]:
        accepted, produced = super().element_types()
        positional, named = given_inputs(self._decorated)
        # Further types are those of other inputs.
        declared_input = positional[0] if positional and not named and len(positional) == 1 else None
        declared_output = declared_hints(self._decorated)[1]
        return (
            declared_input if accepted is None else accepted,
            declared_output if produced is None else produced,
        )

    def types_of_inputs(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        positional, named = super().types_of_inputs()
        return (positional, named) if positional or named else given_inputs(self._decorated)

    def default_label(self) -> str:
        if self._args:
            return f"{self._fn.__name__}({_argument_label(self._args[0])})"
        return self._fn.__name__

    def expand(self, pcoll: Any) -> Any:
        args, kwargs = self._args, dict(self._kwargs)
        parameters = list(signature(self._fn).parameters)
        if "type_hints" in parameters and "type_hints" not in kwargs:
            # Beam's name for an argument that is given by the transform.
            if parameters[1:2] == ["type_hints"]:
                args = (self.get_type_hints(), *args)
            else:
                kwargs["type_hints"] = self.get_type_hints()
        return self._fn(pcoll, *args, **kwargs)


def _argument_label(argument: Any) -> str:
    text = str(getattr(argument, "__name__", argument))
    return text if len(text) < 20 else f"{text[:9]}...{text[-6:]}"


def ptransform_fn(fn: Callable[Concatenate[A, P], B]) -> Callable[P, PTransform[A, B]]:
    """Make a composite of a function from PCollection to PCollection.

    >>> import penstock as beam
    >>> @beam.ptransform_fn
    ... def Doubled(pcoll, factor=2):
    ...     return pcoll | beam.Map(lambda x: factor * x)
    >>> [1, 2] | Doubled()
    [2, 4]
    """

    @wraps(fn)
    def make(*args: P.args, **kwargs: P.kwargs) -> PTransform[A, B]:
        return _FnPTransform(fn, args, kwargs, make)

    return make
