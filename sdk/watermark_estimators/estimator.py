"""WatermarkEstimator: a lower bound of future event times, estimated from past ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from ...frozen import frozen
from ...windowing.timestamp import MIN_MICROS, Timestamp


class WatermarkEstimator(ABC):
    """Base class of estimators, which observe event times and estimate the watermark.

    The first three methods are Beam's.  Sources call `at` with the time, since an estimator has no clock.

    >>> from penstock.io.watermark_estimators import BoundedOutOfOrdernessWatermarkEstimator
    >>> from penstock.window import Timestamp
    >>> estimator = BoundedOutOfOrdernessWatermarkEstimator(30)
    >>> estimator.observe_timestamp(Timestamp(100))
    >>> estimator.current_watermark()
    Timestamp(70)
    """

    @abstractmethod
    def current_watermark(self) -> Timestamp | None:
        """Return the watermark of the observed timestamps, or None without any."""

    @abstractmethod
    def get_estimator_state(self) -> Any:
        """Return the state from which a provider restores the estimator."""

    @abstractmethod
    def observe_timestamp(self, timestamp: Timestamp) -> None:
        """Observe the event time of an element."""

    def with_state(self, state: Any) -> WatermarkEstimator:
        """Return an estimator like this one, with a state of `get_estimator_state`.

        A class with further constructor arguments overrides this.
        """
        return type(self)(state)  # type: ignore[call-arg]

    def observe_all(self, timestamps: list[int] | int) -> None:
        """Observe the timestamps of a bundle, in microseconds."""
        for micros in timestamps if isinstance(timestamps, list) else [timestamps]:
            self.observe_timestamp(Timestamp.of_micros(micros))

    def at(self, now: Timestamp) -> int:
        """Return the watermark at a processing time, in microseconds."""
        watermark = self.current_watermark()
        return MIN_MICROS if watermark is None else watermark.micros


class WatermarkEstimatorProvider(ABC):
    """Provider of estimators.  Picklable.

    >>> from penstock.io.watermark_estimators import ManualWatermarkEstimator, WatermarkEstimatorProvider
    >>> class FromTheFirst(WatermarkEstimatorProvider):
    ...     def initial_estimator_state(self, element, restriction):
    ...         return element["first"]
    ...     def create_watermark_estimator(self, estimator_state):
    ...         return ManualWatermarkEstimator(estimator_state)
    >>> provider = FromTheFirst()
    >>> import penstock as beam
    >>> state = provider.initial_estimator_state({"first": beam.window.Timestamp(7)}, None)
    >>> provider.create_watermark_estimator(state).current_watermark()
    Timestamp(7)
    """

    @abstractmethod
    def create_watermark_estimator(self, estimator_state: Any) -> WatermarkEstimator:
        """Return an estimator with a state of `get_estimator_state` or `initial_estimator_state`."""

    def initial_estimator_state(self, element: Any, restriction: Any) -> Any:
        """Return the initial state."""
        return None

    def estimator_state_coder(self) -> Any:
        """Return None: Beam's coder is unused, since states are pickled."""
        return None


@frozen
class DefaultProvider(WatermarkEstimatorProvider):
    """Provider that calls an estimator's class, or a function, with the state, which is None initially."""

    make: Callable[[Any], WatermarkEstimator]

    def create_watermark_estimator(self, estimator_state: Any) -> WatermarkEstimator:
        return self.make(estimator_state)


@frozen
class EstimatorsLike(WatermarkEstimatorProvider):
    """Provider of estimators like a given one."""

    estimator: WatermarkEstimator

    def create_watermark_estimator(self, estimator_state: Any) -> WatermarkEstimator:
        return self.estimator.with_state(estimator_state)

    def initial_estimator_state(self, element: Any, restriction: Any) -> Any:
        return self.estimator.get_estimator_state()


# Types that `provider_of` accepts.
EstimatorTypes: TypeAlias = WatermarkEstimator | type[WatermarkEstimator] | WatermarkEstimatorProvider


def provider_of(given: Any, where: str) -> WatermarkEstimatorProvider:
    """Return the provider for an argument: a provider, an estimator, or an estimator's class.

    Args:
      where: the beginning of error messages.

    Raises `TypeError` for other values, and for a class with required constructor arguments.
    """
    if isinstance(given, WatermarkEstimatorProvider):
        return given
    is_class = isinstance(given, type) and issubclass(given, WatermarkEstimator)
    if not is_class and not isinstance(given, WatermarkEstimator):
        raise TypeError(
            f"{where}: expected a watermark estimator, its class, or a WatermarkEstimatorProvider, got {given!r}"
        )
    provider = DefaultProvider(given) if is_class else EstimatorsLike(given)
    try:
        provider.create_watermark_estimator(provider.initial_estimator_state(None, None))
    except Exception as error:
        name = given.__name__ if is_class else type(given).__name__
        advice = f"give an instance, {name}(...)" if is_class else "define with_state(state), or give a provider"
        raise TypeError(f"{where}: a {name} can't be created from a state alone ({error}); {advice}") from error
    return provider
