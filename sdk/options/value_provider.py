"""Values of options with a method `get`, as in Beam's templates."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar

from ..errors import OptionsError


class RuntimeValueProviderError(OptionsError, RuntimeError):
    """A value that is known during a run only was asked for while the pipeline was being built."""


class ValueProvider:
    """Base class of values that may be known during a run only."""

    def is_accessible(self) -> bool:
        """Return whether `get` returns the value now."""
        raise NotImplementedError(f"{type(self).__name__}.is_accessible")

    def get(self) -> Any:
        """Return the value.  Raises `RuntimeValueProviderError` if it isn't accessible."""
        raise NotImplementedError(f"{type(self).__name__}.get")

    def value_for_run(self) -> Any:
        """Return the value that a run will see, while the pipeline is being built as well."""
        return self.get()


class StaticValueProvider(ValueProvider):
    """A value that is known while the pipeline is built.

    Args:
      value_type: the type, which the value is converted to.

    >>> StaticValueProvider(int, "3").get()
    3
    """

    def __init__(self, value_type: Callable[[Any], Any], value: Any) -> None:
        self.value_type = value_type
        self.value = value_type(value)

    def is_accessible(self) -> bool:
        """Return True."""
        return True

    def get(self) -> Any:
        return self.value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, StaticValueProvider):
            return (self.value_type, self.value) == (other.value_type, other.value)
        return bool(self.value == other)

    def __hash__(self) -> int:
        return hash((type(self), self.value_type, self.value))

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return f"StaticValueProvider({getattr(self.value_type, '__name__', self.value_type)}, {self.value!r})"


class RuntimeValueProvider(ValueProvider):
    """The value of an option that wasn't given: its default, or a value that the program sets before the run.

    Args:
      option_name: the option.
      value_type: the type, which a value is converted to.
      default_value: the value if the option has none.

    Attributes:
      runtime_options: the options of the last run by name, None before the first.
      experiments: the names of the experiments of the last run.
    """

    runtime_options: ClassVar[dict[str, Any] | None] = None
    experiments: ClassVar[set[str]] = set()

    def __init__(self, option_name: str, value_type: Callable[[Any], Any], default_value: Any) -> None:
        self.option_name = option_name
        self.value_type = value_type
        self.default_value = default_value
        # Those of the run that this object has been pickled for.
        self._options: dict[str, Any] | None = None

    @classmethod
    def set_runtime_options(cls, pipeline_options: dict[str, Any] | None) -> None:
        """Set the options of a run by name."""
        RuntimeValueProvider.runtime_options = pipeline_options
        RuntimeValueProvider.experiments = cls.get_value("experiments", set, set())

    @classmethod
    def get_value(cls, option_name: str, value_type: Callable[[Any], Any], default_value: Any) -> Any:
        """Return an option of the last run, or `default_value`."""
        return _converted((cls.runtime_options or {}).get(option_name), value_type, default_value)

    def is_accessible(self) -> bool:
        """Return whether a run has begun."""
        return self._known() is not None

    def get(self) -> Any:
        if not self.is_accessible():
            raise RuntimeValueProviderError(f"{self}.get() not called from a runtime context: call it in a DoFn")
        return self.value_for_run()

    def value_for_run(self) -> Any:
        given = (self._known() or {}).get(self.option_name)
        return _converted(given, self.value_type, self.default_value)

    def _known(self) -> dict[str, Any] | None:
        return self._options if RuntimeValueProvider.runtime_options is None else RuntimeValueProvider.runtime_options

    # Workers don't have the runtime options.
    def __getstate__(self) -> dict[str, Any]:
        known = self._known()
        own = None if known is None else {name: value for name, value in known.items() if name == self.option_name}
        return {**vars(self), "_options": own}

    def __str__(self) -> str:
        kind = getattr(self.value_type, "__name__", self.value_type)
        return f"RuntimeValueProvider(option: {self.option_name}, type: {kind}, default_value: {self.default_value!r})"

    __repr__ = __str__


class NestedValueProvider(ValueProvider):
    """A value that is computed from another one.

    Args:
      value: the other value.
      translator: takes its value.

    >>> NestedValueProvider(StaticValueProvider(str, "gs://bucket"), lambda path: f"{path}/in.txt").get()
    'gs://bucket/in.txt'
    """

    def __init__(self, value: ValueProvider, translator: Callable[[Any], Any]) -> None:
        self.value = value
        self.translator = translator

    def is_accessible(self) -> bool:
        """Return whether the other value is accessible."""
        return self.value.is_accessible()

    def get(self) -> Any:
        if "cached_value" not in vars(self):
            self.cached_value = self.translator(self.value.get())
        return self.cached_value

    def value_for_run(self) -> Any:
        return self.translator(self.value.value_for_run())

    def __str__(self) -> str:
        named = getattr(self.translator, "__name__", self.translator)
        return f"NestedValueProvider(value: {self.value}, translator: {named})"

    __repr__ = __str__


def check_accessible(value_provider_list: list[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of methods that raises `RuntimeValueProviderError` for attributes that aren't accessible."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
            for provider in (getattr(self, name) for name in value_provider_list):
                if not provider.is_accessible():
                    raise RuntimeValueProviderError(f"{provider} not accessible")
            return method(self, *args, **kwargs)

        return checked

    return decorate


def value_of(given: Any) -> Any:
    """Return the value that a run sees of a provider, and other values unchanged.

    >>> value_of(RuntimeValueProvider("input", str, "in.txt")), value_of("out.txt")
    ('in.txt', 'out.txt')
    """
    return given.value_for_run() if isinstance(given, ValueProvider) else given


def _converted(value: Any, value_type: Callable[[Any], Any], default: Any) -> Any:
    value = value_of(value) if not isinstance(value, RuntimeValueProvider) else None
    return value_type(value) if value else default
