"""CombiningValueStateSpec: the accumulator of a combiner.

>>> from penstock.sdk.userstate import DictStore
>>> total = CombiningValueStateSpec("total", sum).of(DictStore())
>>> total.read(), total.add(3), total.add(4), total.read()
(0, None, None, 7)
"""

from __future__ import annotations

from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, Generic, overload

from ...persistence import stored_as
from ..coders.coder import Coder
from ..combine_fn import CombineFn
from ..elements.defensive_copy import defensive_copy
from ..type_variables import A, R
from .state_spec import AccumulatingRuntimeState, StateSpec
from .store import ATOMS

if TYPE_CHECKING:
    from ..static_types import CoderOf, Combiner, Fold, FunctionOfList
    from .state_ttl import Ttl
    from .store import StateStore


@stored_as("accumulator-state", 1, lambda accumulator: (accumulator.value,))
class Accumulator:
    """An accumulator, which a combiner may change in place."""

    __slots__ = ("value",)

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def copy(self) -> Accumulator:
        """Return a copy, which is added to independently."""
        return Accumulator(defensive_copy(self.value))

    def __eq__(self, other: object) -> bool:
        return type(other) is Accumulator and bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Accumulator({self.value!r})"


class CombiningValueRuntimeState(AccumulatingRuntimeState, Generic[A, R]):
    """The accumulator of one key and window."""

    __slots__ = ()

    def read(self) -> R:  # type: ignore[override]
        """Return the combiner's result, for a state without inputs that of an empty accumulator."""
        fn = self.spec.combine_fn
        held = self.column.values.get(self.key)
        if held is None:
            return fn.extract_output(fn.create_accumulator())  # type: ignore[no-any-return]
        # The accumulator may be the output itself, or share parts with it.
        return defensive_copy(fn.extract_output(held.value))  # type: ignore[no-any-return]

    def add(self, value: A) -> None:
        """Add an input."""
        fn = self.spec.combine_fn
        column, key = self.column, self.key
        if type(value) not in ATOMS:
            value = defensive_copy(value)
            column.wrote(key, value)
        held = column.changing(key, self.spec.new_accumulator)
        held.value = fn.add_input(held.value, value)

    def is_empty(self) -> bool:
        """Return whether there are no inputs."""
        return self.column.values.get(self.key) is None


class CombiningValueStateSpec(StateSpec, Generic[A, R]):
    """The accumulator of a combiner: `read`, `add`, `is_empty`, `clear`.

    Args:
      name: unique among the states of the DoFn.
      coder: Beam's coder for accumulators.  If it is left out, this is the combiner.
      combine_fn: a CombineFn, or a callable such as `sum`.
      ttl: how long the accumulator of a key is kept after it was last added to; see `StateSpec`.

    >>> import penstock as beam
    >>> from penstock.transforms.userstate import CombiningValueStateSpec
    >>> class Total(beam.DoFn):
    ...     TOTAL = CombiningValueStateSpec("total", sum)
    ...     def process(self, pair, total=beam.DoFn.StateParam(TOTAL)):
    ...         total.add(pair[1])
    ...         yield total.read()
    >>> [("a", 3), ("a", 5)] | beam.ParDo(Total())
    [3, 8]
    """

    runtime = CombiningValueRuntimeState

    if TYPE_CHECKING:

        def of(self, store: StateStore, namespace: Any = None, key: Any = None) -> CombiningValueRuntimeState[A, R]: ...

    @overload
    def __init__(self, name: str, coder: Combiner[A, R], *, ttl: Ttl = None) -> None: ...
    @overload
    def __init__(self: CombiningValueStateSpec[Any, Any], name: str, coder: Fold, *, ttl: Ttl = None) -> None: ...
    @overload
    def __init__(self, name: str, coder: FunctionOfList[A, R], *, ttl: Ttl = None) -> None: ...
    # The coder of an accumulator.  That of a sum is of its inputs, too.
    @overload
    def __init__(
        self, name: str, coder: CoderOf[Any] | None = None, *, combine_fn: Combiner[A, R], ttl: Ttl = None
    ) -> None: ...
    @overload
    def __init__(
        self, name: str, coder: CoderOf[Any] | None, combine_fn: Combiner[A, R], *, ttl: Ttl = None
    ) -> None: ...
    @overload
    def __init__(
        self: CombiningValueStateSpec[R, R], name: str, coder: CoderOf[R], combine_fn: Fold, *, ttl: Ttl = None
    ) -> None: ...
    @overload
    def __init__(
        self, name: str, coder: CoderOf[Any] | None = None, *, combine_fn: FunctionOfList[A, R], ttl: Ttl = None
    ) -> None: ...
    @overload
    def __init__(
        self, name: str, coder: CoderOf[Any] | None, combine_fn: FunctionOfList[A, R], *, ttl: Ttl = None
    ) -> None: ...
    def __init__(self, name: str, coder: Any = None, combine_fn: Any = None, *, ttl: Ttl = None) -> None:
        if combine_fn is None:
            if coder is None:
                raise ValueError(f"CombiningValueStateSpec({name!r}): combine_fn must be provided")
            coder, combine_fn = None, coder
        if isinstance(combine_fn, Coder):
            raise TypeError(f"CombiningValueStateSpec({name!r}): expected a combiner, got the coder {combine_fn!r}")
        super().__init__(name, coder, ttl=ttl)
        self.combine_fn: CombineFn[Any, Any, Any] = CombineFn.maybe_from_callable(combine_fn)

    def for_worker(self) -> CombiningValueStateSpec[A, R]:
        """Return a copy with its own combiner, since workers of one process share the DoFn's class and its specs."""
        spec = copy(self)
        spec.combine_fn = deepcopy(self.combine_fn)
        return spec

    def setup(self) -> None:
        self.combine_fn.setup()

    def teardown(self) -> None:
        self.combine_fn.teardown()

    def new_accumulator(self) -> Accumulator:
        """Return an empty accumulator."""
        return Accumulator(self.combine_fn.create_accumulator())
