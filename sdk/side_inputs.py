"""Side inputs: PCollections as arguments of functions.

As in Beam, an element of the main input sees the side input's window that contains the end of its own window.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Never

from .pvalue import PCollection
from .side_input_views import NO_DEFAULT, DictView, IterableView, ListView, MultiMapView, SingletonView, View
from .user_code.serialization import Serialized

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import TypeVar

    T = TypeVar("T")
    K = TypeVar("K")
    V = TypeVar("V")
    D = TypeVar("D", default=Never)


class EmptySideInput:
    """Beam's: the value of a singleton whose window is empty."""


class AsSideInput:
    """A PCollection with a view for a function."""

    def __init__(self, pcoll: PCollection[Any]) -> None:
        if not isinstance(pcoll, PCollection):
            raise TypeError(f"{type(self).__name__}: expected a PCollection, got {pcoll!r}")
        self.pvalue = pcoll

    @property
    def view(self) -> View:
        """The view of the window's elements."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.pvalue})"


class _OneElement(AsSideInput):
    """Base class of `AsSingleton`, with its constructor: type checkers take an `AsSingleton` for its element."""

    def __init__(self, pcoll: PCollection[Any], default_value: Any = NO_DEFAULT) -> None:
        super().__init__(pcoll)
        self.default_value = default_value

    @property
    def view(self) -> View:
        return SingletonView(self.default_value)


class AsSingleton(_OneElement):
    """The side input's only element, or `default_value` if it has none.

    More than one is a `SideInputError`.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     total = p | "Numbers" >> beam.Create([1, 2]) | beam.CombineGlobally(sum)
    ...     shares = p | beam.Create([3.0]) | beam.Map(lambda n, of: n / of, beam.pvalue.AsSingleton(total))
    ...     _ = shares | beam.Map(print)
    1.0
    """

    if TYPE_CHECKING:
        # A function that takes the view is given this.

        def __new__(cls, pcoll: PCollection[T], default_value: D = ...) -> T | D: ...  # type: ignore[misc]


class SingletonOrMade(AsSingleton):
    """The side input's only element, or the result of a function without arguments if it has none."""

    def __init__(self, pcoll: PCollection[Any], make_default: Serialized[Callable[[], Any]]) -> None:
        super().__init__(pcoll)
        self.make_default = make_default

    @property
    def view(self) -> View:
        return SingletonView(make_default=self.make_default)


class AsIter(AsSideInput):
    """The side input's elements, as an iterable.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     numbers = p | "Numbers" >> beam.Create([1, 2])
    ...     sums = p | beam.Create([10]) | beam.Map(lambda n, others: n + sum(others), beam.pvalue.AsIter(numbers))
    ...     _ = sums | beam.Map(print)
    13
    """

    if TYPE_CHECKING:
        # A function that takes the view is given this.

        def __new__(cls, pcoll: PCollection[T]) -> Iterable[T]: ...  # type: ignore[misc]

    @property
    def view(self) -> View:
        return IterableView()


class AsList(AsSideInput):
    """The side input's elements, as a list.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     stop_words = beam.pvalue.AsList(p | "Stop words" >> beam.Create(["to", "or"]))
    ...     words = p | beam.Create(["to", "be", "or"]) | beam.Filter(lambda word, stop: word not in stop, stop_words)
    ...     _ = words | beam.Map(print)
    be
    """

    if TYPE_CHECKING:
        # A function that takes the view is given this.

        def __new__(cls, pcoll: PCollection[T]) -> list[T]: ...  # type: ignore[misc]

    @property
    def view(self) -> View:
        return ListView()


class AsDict(AsSideInput):
    """The side input's pairs, as a dictionary.

    Keys are compared as in a `dict`: a float NaN is found only by the same object.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     names = beam.pvalue.AsDict(p | "Names" >> beam.Create([(1, "Ada"), (2, "Bo")]))
    ...     visits = p | beam.Create([(2, "cart")])
    ...     _ = visits | beam.Map(lambda visit, names: (names[visit[0]], visit[1]), names) | beam.Map(print)
    ('Bo', 'cart')
    """

    if TYPE_CHECKING:
        # A function that takes the view is given this.

        def __new__(cls, pcoll: PCollection[tuple[K, V]]) -> dict[K, V]: ...  # type: ignore[misc]

    @property
    def view(self) -> View:
        return DictView()


class AsMultiMap(AsSideInput):
    """The side input's pairs, as a dictionary from key to all of its values.

    Keys are compared as in a `dict`: a float NaN is found only by the same object.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     tags = beam.pvalue.AsMultiMap(p | "Tags" >> beam.Create([("tea", "hot"), ("tea", "green")]))
    ...     items = p | beam.Create(["tea"])
    ...     _ = items | beam.Map(lambda item, tags: (item, sorted(tags[item])), tags) | beam.Map(print)
    ('tea', ['green', 'hot'])
    """

    if TYPE_CHECKING:
        # A function that takes the view is given this.

        def __new__(cls, pcoll: PCollection[tuple[K, V]]) -> dict[K, list[V]]: ...  # type: ignore[misc]

    @property
    def view(self) -> View:
        return MultiMapView()
