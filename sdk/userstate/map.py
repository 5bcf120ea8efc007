"""MapStateSpec: values by name.  Beam's Java SDK has it; Beam's Python SDK does not.

>>> from penstock.sdk.userstate import DictStore
>>> prices = MapStateSpec("prices").of(DictStore())
>>> prices.put("tea", 3), prices.put("jam", 4)
(None, None)
>>> prices.get("tea"), prices.get("bread", 0), dict(prices.items())
(3, 0, {'tea': 3, 'jam': 4})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar, overload

from ..coders.coded_key import coded, plain
from ..coders.coder import Coder
from ..elements.defensive_copy import defensive_copies, defensive_copy
from ..type_variables import K, T
from .state_spec import RuntimeState, StateSpec

if TYPE_CHECKING:
    from ..static_types import CoderOf
    from .state_ttl import Ttl
    from .store import StateStore

    D = TypeVar("D")


class MapRuntimeState(RuntimeState, Generic[K, T]):
    """The values of one key and window, by name, in the order of the names' first use.

    A name needs a hash, or a registered coder.
    """

    __slots__ = ()

    # Of values of an unknown type, a value is so, too.
    @overload
    def get(self: MapRuntimeState[K, Never], name: K, default: Any = None) -> Any: ...
    @overload
    def get(self, name: K, default: None = None) -> T | None: ...
    @overload
    def get(self, name: K, default: T | D) -> T | D: ...
    def get(self, name: Any, default: Any = None) -> Any:
        """Return the value of a name, or the default.  A change in place is no change of the state before `put`."""
        return defensive_copy(self.column.values.get(self.key, _NOTHING).get(coded(name), default))

    def put(self, name: K, value: T) -> None:
        """Set the value of a name."""
        value = defensive_copy(value)
        self.column.changing(self.key, dict[Any, Any])[coded(name)] = value
        self.column.wrote(self.key, name)
        self.column.wrote(self.key, value)

    @overload
    def put_if_absent(self: MapRuntimeState[K, Never], name: K, value: Any) -> Any: ...
    @overload
    def put_if_absent(self, name: K, value: T) -> T | None: ...
    def put_if_absent(self, name: Any, value: Any) -> Any:
        """Set the value of a name unless it has one, and return the former value or None."""
        if not self.contains(name):
            self.put(name, value)
            return None
        return self.get(name)

    def remove(self, name: K) -> None:
        """Remove a name, if it exists."""
        if self.contains(name):
            values = self.column.changing(self.key, dict[Any, Any])
            del values[coded(name)]
            if not values:
                self.clear()

    def contains(self, name: K) -> bool:
        """Return whether a name has a value."""
        return coded(name) in self.column.values.get(self.key, _NOTHING)

    def keys(self) -> list[K]:
        """Return the names."""
        return list(map(plain, self.column.values.get(self.key, _NOTHING)))

    def values(self) -> list[T]:
        """Return the values."""
        return defensive_copies(list(self.column.values.get(self.key, _NOTHING).values()))

    def items(self) -> list[tuple[K, T]]:
        """Return the names with their values."""
        items = self.column.values.get(self.key, _NOTHING).items()
        return [(plain(name), defensive_copy(value)) for name, value in items]

    def is_empty(self) -> bool:
        """Return whether there are no names."""
        return self.column.values.get(self.key) is None


class MapStateSpec(StateSpec, Generic[K, T]):
    """Values by name: `get`, `put`, `put_if_absent`, `remove`, `contains`, `keys`, `values`, `items`, `clear`.

    >>> import penstock as beam
    >>> from penstock.transforms.userstate import MapStateSpec
    >>> class Prices(beam.DoFn):
    ...     PRICES = MapStateSpec("prices")
    ...     def process(self, pair, prices=beam.DoFn.StateParam(PRICES)):
    ...         item, price = pair[1]
    ...         prices.put(item, price)
    ...         yield dict(prices.items())
    >>> [("shop", ("tea", 3)), ("shop", ("milk", 1)), ("shop", ("tea", 4))] | beam.ParDo(Prices())
    [{'tea': 3}, {'tea': 3, 'milk': 1}, {'tea': 4, 'milk': 1}]
    """

    runtime = MapRuntimeState

    if TYPE_CHECKING:

        def of(self, store: StateStore, namespace: Any = None, key: Any = None) -> MapRuntimeState[K, T]: ...

    def __init__(
        self,
        name: str,
        key_coder: CoderOf[K] | None = None,
        value_coder: CoderOf[T] | None = None,
        *,
        ttl: Ttl = None,
    ) -> None:
        super().__init__(name, key_coder, ttl=ttl)  # type: ignore[arg-type]
        if value_coder is not None and not isinstance(value_coder, Coder):
            raise TypeError(f"MapStateSpec({name!r}): the value coder must be a Coder, got {value_coder!r}")
        self.value_coder = value_coder


_NOTHING: dict[Any, Any] = {}
