"""Beam's form of the type hints of a function, DoFn or transform: those of its inputs and those of its outputs."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...sdk.typehints.callables import annotations_of, hints_of_callable
from ...sdk.typehints.decorators import (
    declared_hints,
    declared_inputs,
    declared_tags,
    with_input_types,
    with_output_types,
)
from .constraints import (
    AnyTypeConstraint,
    IterableTypeConstraint,
    TupleConstraint,
    TypeConstraint,
    TypeVariable,
    UnionConstraint,
    union_of_types,
)
from .native_types import convert_to_beam_type, convert_to_beam_types
from .subscripts import get_yielded_type
from .trivial_inference import get_signature, whole_hint

# Types by position and by name.
Hints = tuple[tuple[Any, ...], dict[str, Any]]


class WithTypeHints:
    """Mixin of classes whose type hints are declared by decorators, methods, or `default_type_hints`.

    >>> class Parser(WithTypeHints):
    ...     def default_type_hints(self):
    ...         return IOTypeHints.empty().with_output_types(int)
    >>> Parser().with_input_types(str).get_type_hints()
    IOTypeHints[inputs=((<class 'str'>,), {}), outputs=((<class 'int'>,), {})]
    """

    def default_type_hints(self) -> IOTypeHints | None:
        """Return the hints of what isn't declared; None for none."""
        return None

    def with_input_types(self, *args: Any, **kwargs: Any) -> Any:
        """Declare the types of inputs."""
        return with_input_types(*args, **kwargs)(self)

    def with_output_types(self, hint: Any = None, **tagged: Any) -> Any:
        """Declare the types of outputs."""
        return with_output_types(hint, **tagged)(self)

    def get_type_hints(self) -> IOTypeHints:
        """Return the declared hints, and the default ones."""
        return get_type_hints(self)


class IOTypeHints(NamedTuple):
    """Type hints of inputs and outputs, each by position and by name; None for undeclared ones.

    >>> hints = IOTypeHints.empty().with_input_types(str).with_output_types(int, errors=list[str])
    >>> hints
    IOTypeHints[inputs=((<class 'str'>,), {}), outputs=((<class 'int'>,), {'errors': List[<class 'str'>]})]
    >>> hints.simple_output_type("Parse"), hints.tagged_output_types()
    (<class 'int'>, {'errors': List[<class 'str'>]})
    """

    input_types: Hints | None = None
    output_types: Hints | None = None
    # Where the types were declared, the latest first.
    origin: list[str] = []

    @classmethod
    def empty(cls) -> IOTypeHints:
        """Return hints without any type."""
        return cls(None, None, [])

    @classmethod
    def of(cls, inputs: tuple[Any, ...] | None, output: Any, tagged: Mapping[str, Any]) -> IOTypeHints:
        """Return hints of these types; None for an unknown one."""
        hints = cls() if inputs is None else cls().with_input_types(*inputs)
        if output is None and not tagged:
            return hints
        return hints.with_output_types(*(() if output is None else (output,)), **tagged)

    @classmethod
    def from_callable(cls, fn: Callable[..., Any]) -> IOTypeHints | None:
        """Return the hints of a function's annotations; None for a function without any.

        Parameters without an annotation, and a result without one, are of the type `Any`.
        """
        inputs, output = hints_of_callable(fn)
        if inputs is None and output is None:
            return None
        try:
            parameters = list(get_signature(fn).parameters.values())
        except (TypeError, ValueError):
            return cls.of(inputs, output, {})
        if isinstance(fn, type):
            annotated = dict(zip([p.name for p in parameters], inputs or (), strict=False))
        else:
            annotated = annotations_of(fn)
            owner = getattr(fn, "__objclass__", None)
            if owner is not None and parameters:
                annotated[parameters[0].name] = owner
        hints = [(p, whole_hint(p, [annotated[p.name]] if p.name in annotated else [])) for p in parameters]
        keywords = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
        positional = tuple(hint for p, hint in hints if p.kind not in keywords)
        named = {p.name: hint for p, hint in hints if p.kind in keywords}
        result = (
            AnyTypeConstraint() if output is None else None if output is type(None) else convert_to_beam_type(output)
        )
        origin = f"from the annotations of {getattr(fn, '__module__', '')}.{getattr(fn, '__qualname__', '<unknown>')}"
        return cls((positional, named), ((result,), {}), [origin])

    def with_input_types(self, *args: Any, **kwargs: Any) -> IOTypeHints:
        """Return hints with these types of inputs."""
        types = tuple(convert_to_beam_types(args)), convert_to_beam_types(kwargs)
        return self._replace(input_types=types, origin=[_declared_by("with_input_types"), *self.origin])

    def with_output_types(self, *args: Any, **kwargs: Any) -> IOTypeHints:
        """Return hints with the type of the main output, and those of tagged outputs by tag."""
        types = tuple(convert_to_beam_types(args)), convert_to_beam_types(kwargs)
        return self._replace(output_types=types, origin=[_declared_by("with_output_types"), *self.origin])

    def with_input_types_from(self, other: IOTypeHints) -> IOTypeHints:
        """Return hints with the inputs of others."""
        return self._replace(input_types=other.input_types)

    def with_output_types_from(self, other: IOTypeHints) -> IOTypeHints:
        """Return hints with the outputs of others."""
        return self._replace(output_types=other.output_types)

    def with_defaults(self, hints: IOTypeHints | None) -> IOTypeHints:
        """Return hints with those of others where these have none; these hints, if that changes nothing."""
        if hints is None:
            return self
        inputs, outputs = self.input_types or hints.input_types, self.output_types or hints.output_types
        if (inputs, outputs) == (self.input_types, self.output_types):
            return self
        both = f"based on: {self!r}\n{self.debug_str()}\nand: {hints!r}\n{hints.debug_str()}"
        return IOTypeHints(inputs, outputs, [both])

    def debug_str(self) -> str:
        """Return the hints, and where they were declared, the latest first."""
        return "\n".join([repr(self), *self.origin])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and tuple(self)[:2] == tuple(other)[:2]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(str(self))

    def simple_output_type(self, context: Any) -> Any:
        """Return the type of the main output; None if unknown.  Raises `TypeError` for several types."""
        if self.output_types is None:
            return None
        positional = self.output_types[0]
        if len(positional) != 1:
            raise TypeError(f"{context}: expected one output type, got {self.output_types!r}")
        return positional[0]

    def has_simple_output_type(self) -> bool:
        """Return whether there is one type of the main output."""
        return self.output_types is not None and len(self.output_types[0]) == 1

    def tagged_output_types(self) -> dict[str, Any]:
        """Return the types of tagged outputs by tag."""
        return {} if self.output_types is None else dict(self.output_types[1])

    def strip_iterable(self) -> IOTypeHints:
        """Return hints in which the types of the outputs are those of the elements.

        Raises `ValueError` for a type that is no iterable.

        >>> IOTypeHints.empty().with_output_types(list[int]).strip_iterable().simple_output_type("FlatMap")
        <class 'int'>
        """
        if self.output_types is None or not self.has_simple_output_type():
            return self
        tagged = {tag: _elements(hint) for tag, hint in self.output_types[1].items()}
        return self.with_output_types(_elements(self.output_types[0][0]), **tagged)

    def __repr__(self) -> str:
        return f"IOTypeHints[inputs={self.input_types}, outputs={self.output_types}]"


_K, _V = TypeVariable("K"), TypeVariable("V")
_PAIR = TupleConstraint(_K, _V)
# Types of penstock's transforms, by the names of their classes, which are inferred when they are applied.
_BUILT_IN: dict[str, tuple[Any, Any]] = {
    "GroupByKey": (_PAIR, TupleConstraint(_K, IterableTypeConstraint(_V))),
    "CombinePerKey": (_PAIR, TupleConstraint(_K, AnyTypeConstraint())),
    "CombineValues": (TupleConstraint(_K, IterableTypeConstraint(_V)), TupleConstraint(_K, AnyTypeConstraint())),
    "CombineGlobally": (None, AnyTypeConstraint()),
    "Keys": (_PAIR, _K),
    "Values": (_PAIR, _V),
    "KvSwap": (_PAIR, TupleConstraint(_V, _K)),
    "Distinct": (_V, _V),
    "Reshuffle": (_V, _V),
    "Flatten": (_V, _V),
    "WindowInto": (_V, _V),
    "PerElement": (_V, TupleConstraint(_V, int)),
}


def hints_of_built_in(transform: Any) -> IOTypeHints | None:
    """Return the types of a transform of penstock, in terms of type variables; None for other transforms.

    >>> import penstock as beam
    >>> beam.GroupByKey().get_type_hints().simple_output_type("GroupByKey")
    Tuple[TypeVariable[K], Iterable[TypeVariable[V]]]
    """
    if not type(transform).__module__.startswith(f"{__name__.partition('.')[0]}."):
        return None
    accepted, produced = _BUILT_IN.get(type(transform).__name__, (None, None))
    return None if produced is None else IOTypeHints.of(None if accepted is None else (accepted,), produced, {})


def hints_of_types(inputs: tuple[Any, ...] | None, output: Any, tagged: Mapping[str, Any]) -> IOTypeHints:
    """Return hints of these types; None for an unknown one."""
    return IOTypeHints.of(inputs, output, tagged)


def get_type_hints(fn: Any) -> IOTypeHints:
    """Return the types that decorators declare for a function, DoFn or transform."""
    return IOTypeHints.of(declared_inputs(fn), declared_hints(fn)[1], declared_tags(fn))


def hints_of_elements(fn: Any) -> IOTypeHints:
    """Return the types of elements of a function that returns an iterable, by its decorators, else its annotations.

    >>> def split(line: str) -> list[str]: ...
    >>> hints_of_elements(split)
    IOTypeHints[inputs=((<class 'str'>,), {}), outputs=((<class 'str'>,), {})]
    """
    return get_type_hints(fn).with_defaults(IOTypeHints.from_callable(fn)).strip_iterable()


def _declared_by(method: str) -> str:
    """Return the name of a method with the place in the program that calls it."""
    # The innermost frame comes first.
    callers = [
        (frame, line)
        for frame, line in traceback.walk_stack(None)
        if frame.f_globals.get("__name__", "").partition(".")[0] != __name__.partition(".")[0]
    ]
    return f"{method}() at:\n{''.join(traceback.StackSummary.extract(reversed(callers[:3])).format())}"


def _elements(hint: Any) -> Any:
    hint = convert_to_beam_type(hint)
    if isinstance(hint, UnionConstraint):
        return union_of_types(_elements(one) for one in hint.parameters if one not in (None, type(None)))
    return get_yielded_type(hint) if isinstance(hint, (TypeConstraint, type)) else hint
