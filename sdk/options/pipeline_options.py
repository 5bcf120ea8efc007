"""PipelineOptions: the settings of a run, from the command line or from the program."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from ...windowing.duration import Duration, seconds_of_span
from ..adapters import option_view_of
from ..errors import InvalidOptionError, MissingOptionError, OptionsError
from ..names.extensions import added_attribute, load
from ..redaction import HIDDEN, looks_secret, redacted
from .flags import did_you_mean, flags_in, flags_with_values, nearest

if TYPE_CHECKING:
    from .parser import OptionsParser

_logger = logging.getLogger(__name__)

ViewT = TypeVar("ViewT", bound="PipelineOptions")

# The command line of pytest, which its plugin sets.  No flags are read from `sys.argv` as long as it is equal.
command_line_of_pytest: list[str] | None = None

# The flags that the program itself reads from the command line, as recorded by `penstock run`; None if not recorded.
flags_of_program: set[str] | None = None


def ignores_unknown_flags() -> bool:
    """Return whether flags and options that no view has are ignored with a warning, unless they look misspelled.

    An extension whose programs have flags of other systems replaces this function.
    """
    return False


# Options in seconds, which a program can give as spans of time.
_SPANS = frozenset(
    {
        "alignment_timeout",
        "batch_interval",
        "checkpoint_interval",
        "checkpoint_min_pause",
        "checkpoint_timeout",
        "restart_delay",
        "worker_timeout",
    }
)


# Beam's options that are the same as options of penstock.
_UNDERSTOOD_AS = {"direct_num_workers": "parallelism"}

# The names of options without effect that a warning has been logged for.
_warned_of: set[str] = set()


def _in_seconds(name: str, value: Any) -> Any:
    """Return a span of time in seconds, and other values unchanged."""
    if name in _SPANS and isinstance(value, (Duration, timedelta)):
        return seconds_of_span(value)
    return value


class PipelineOptions:
    """Options, which are read through a *view*: a subclass that declares its flags.

    Args:
      flags: such as `["--runner", "local"]`; None for the program's command line.
      kwargs: options by name, which take precedence over flags.

    A subclass adds its flags in `_add_argparse_args`.  All views of the same options share their values.

    Raises `OptionsError` if a flag of the view has a value of the wrong type, or is required and missing.  Flags of
    other views are ignored.  `check_known` raises for flags that no view has, when a `Pipeline` is created.

    >>> class MyOptions(PipelineOptions):
    ...     @classmethod
    ...     def _add_argparse_args(cls, parser):
    ...         parser.add_argument("--workers", type=int, default=1)
    >>> options = PipelineOptions(["--workers", "3"])
    >>> options.view_as(MyOptions).workers
    3
    """

    def __init__(self, flags: Sequence[str] | None = None, **kwargs: Any) -> None:
        self._is_implicit = flags is None
        self._flags = _command_line() if flags is None else [str(flag) for flag in flags]
        # The given options of all views, by name.  Shared by all views.
        self._given: dict[str, Any] = {}
        for name, value in kwargs.items():
            self._set(name, value)
        self._defaults: dict[str, Any] = {}
        self._read_flags()

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        """Add the flags of this class to an `argparse.ArgumentParser`."""

    def _set(self, name: str, value: Any) -> None:
        self._given[name] = _in_seconds(name, value)
        if name in _UNDERSTOOD_AS:
            self._given[_UNDERSTOOD_AS[name]] = value

    def _read_flags(self) -> None:
        self._defaults = _read(type(self), self._flags, self._given, check_required=True)

    def view_as(self, cls: type[ViewT]) -> ViewT:
        """Return a view of class `cls` of the same options.

        Classes of other libraries are converted (`penstock.sdk.adapters.option_view_of`).

        Raises `OptionsError` as the constructor does.
        """
        cls = option_view_of(cls)
        if not (isinstance(cls, type) and issubclass(cls, PipelineOptions)):
            raise OptionsError(f"view_as takes a subclass of PipelineOptions, not {cls!r}")
        view = cls.__new__(cls)
        view._is_implicit, view._flags, view._given = self._is_implicit, self._flags, self._given
        view._read_flags()
        return view

    @classmethod
    def from_dictionary(cls: type[ViewT], options: dict[str, Any]) -> ViewT:
        """Return options from names and values: True is a flag without a value, a list a repeated flag.

        None is ignored, and so is False except for an option that is on by default.

        >>> from penstock.sdk.options import DebugOptions
        >>> PipelineOptions.from_dictionary({"experiments": ["a", "b"]}).view_as(DebugOptions).experiments
        ['a', 'b']
        """
        flags: list[str] = []
        switched_off = {}
        for name, value in options.items():
            value = _in_seconds(name, value)
            if isinstance(value, dict):
                import json

                value = json.dumps(value)
            if value is True:
                flags.append(f"--{name}")
            elif value is False:
                switched_off[name] = False
            elif isinstance(value, (list, tuple)):
                flags.extend(f"--{name}={one}" for one in value)
            elif value is not None:
                flags.append(f"--{name}={value}")
        return cls(flags, **switched_off)

    def get_all_options(
        self,
        drop_default: bool = False,
        add_extra_args_fn: Any = None,
        retain_unknown_options: bool = False,
        display_warnings: bool = False,
        current_only: bool = False,
    ) -> dict[str, Any]:
        """Return all options of all views by name.

        Args:
          drop_default: leaves out options with their default value.
          add_extra_args_fn: adds flags of its own to a parser.
          retain_unknown_options: includes options that no view has: flags, as strings or True, and keywords.
          display_warnings: Beam's; unknown flags are errors when a pipeline is created.
          current_only: leaves out options of other views.

        >>> PipelineOptions([], streaming=True).get_all_options(drop_default=True)
        {'streaming': True}
        """
        given = dict(self._given)
        defaults: dict[str, Any] = {}
        load()
        parsers = [_parser(type(self))] if current_only else [parser for _, parser, _ in _usable()]
        if add_extra_args_fn is not None:
            from .parser import OptionsParser

            parsers.append(OptionsParser())
            add_extra_args_fn(parsers[-1])
            parsers[-1].take_required()
        for parser in parsers:
            for name, default in _read_by(parser, self._flags, given).items():
                defaults.setdefault(name, default)
        every = {name: given.get(name, default) for name, default in defaults.items()}
        if retain_unknown_options:
            left = self._flags
            for parser in parsers:
                left = parser.others(left)
            every.update(flags_with_values(left))
            every.update({name: value for name, value in self._given.items() if name not in every})
        if drop_default:
            return {name: value for name, value in every.items() if name not in defaults or value != defaults[name]}
        return every

    def given(self) -> dict[str, Any]:
        """Return the options with values by name: given by keyword, set by the program, or flags of views in use."""
        return self._given

    def changed(self) -> dict[str, Any]:
        """Return the options of this view that differ from their default, without those that have no effect.

        >>> from penstock.sdk.options import StreamingOptions
        >>> PipelineOptions(["--parallelism=1", "--workers=2"]).view_as(StreamingOptions).changed()
        {'workers': 2}
        """
        values = {name: self._given.get(name, default) for name, default in self._defaults.items()}
        ignored = _parser(type(self)).without_effect().values()
        return {name: value for name, value in values.items() if value != self._defaults[name] and name not in ignored}

    def display_data(self) -> dict[str, Any]:
        """Return all options that differ from their default, with passwords, tokens and keys hidden.

        >>> PipelineOptions([], api_token="abc").display_data()
        {'api_token': '***'}
        """
        options = self.get_all_options(drop_default=True, retain_unknown_options=True)
        return {name: _shown(name, value) for name, value in options.items()}

    def check_known(self) -> None:
        """Raise `OptionsError` for an option that no view has, suggesting the nearest one.

        On the program's command line, which may have the program's own flags, raises only for a flag that looks like a
        misspelled option.  Under `penstock run`, which records the flags that the program reads, raises for every other
        unknown flag.

        Logs one warning for options of Beam that have no effect.  Programs for Beam may have options that no view has,
        unless they look misspelled: these are ignored with a warning, as Beam does.
        """
        if not self._flags and not self._given:
            return
        flags, names = _known()
        if not {*flags_in(self._flags)} <= {*flags} or not {*self._given} <= {*names}:
            load()
            flags, names = _known()
        self._warn_of_options_without_effect()
        own = flags_of_program
        ignored = dict[str, None]()
        for flag in flags_in(self._flags):
            if flag in flags or (own is not None and flag in own):
                continue
            is_close = nearest(flag, flags, 0.85)
            if own is None and self._is_implicit and not is_close:
                continue
            if ignores_unknown_flags() and not is_close:
                ignored[flag] = None
                continue
            advice = "is it an option of your own? Then declare it in a subclass of PipelineOptions"
            if own is not None and self._is_implicit:
                advice += ", read it with argparse before the pipeline is made, or put it behind a --"
            raise OptionsError(f"unknown option {flag}; {did_you_mean(flag, flags) or advice}{_broken_ones()}")
        for name in self._given:
            if name not in names:
                if ignores_unknown_flags() and not nearest(name, names, 0.85):
                    ignored[f"--{name}"] = None
                    continue
                advice = "declare it in a subclass of PipelineOptions"
                raise OptionsError(f"unknown option {name!r}; {did_you_mean(name, names) or advice}")
        if ignored:
            _logger.warning("Unknown options, which are ignored: %s", ", ".join(ignored))

    def _warn_of_options_without_effect(self) -> None:
        found: dict[str, None] = {}
        reasons: dict[str, str] = {}
        for _, parser, defaults in _usable():
            ignored = parser.without_effect()
            reasons |= parser.reasons()
            found.update((ignored[flag], None) for flag in flags_in(self._flags) if flag in ignored)
            given = [name for name in ignored.values() if self._given.get(name, defaults[name]) != defaults[name]]
            found.update(dict.fromkeys(given))
        names = [name for name in found if name not in _warned_of]
        _warned_of.update(found)
        for name in names:
            if name in reasons:
                _logger.warning("--%s has no effect in penstock: %s", name, reasons[name])
        if others := [f"--{name}" for name in names if name not in reasons]:
            _logger.warning("Options of Beam that have no effect in penstock: %s", ", ".join(others))

    def __getattr__(self, name: str) -> Any:
        # Called for missing attributes only.  Private names are never options.
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._defaults:
            return self._given.get(name, self._defaults[name])
        try:
            return added_attribute(self, name)
        except AttributeError:
            raise AttributeError(self._no_option(name)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        elif name in self._defaults:
            self._set(name, value)
        else:
            raise AttributeError(self._no_option(name))

    def _no_option(self, name: str) -> str:
        message = f"{type(self).__name__} has no option {name!r}"
        for view, _, defaults in _usable():
            if name in defaults:
                return f"{message}; {view.__name__} has: options.view_as({view.__name__}).{name}"
        names = {*self._defaults}.difference(_parser(type(self)).without_effect().values())
        return f"{message}; it has {', '.join(sorted(names)) or 'none'}"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._defaults})

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and (self._flags, self._given) == (other._flags, other._given)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        try:
            shown = self.display_data()
        except OptionsError as error:
            return f"{type(self).__name__}(<{error}>)"
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def describe_options() -> str:
    """Return a text that describes all options of all views.

    >>> import penstock as beam
    >>> "--checkpoint_dir" in beam.options.describe_options()
    True
    """
    groups = []
    for view, parser, _ in _usable():
        described = parser.format_help().strip()
        if described:
            lines = described.splitlines()[1:] if described.startswith("options:") else described.splitlines()
            groups.append("\n".join([f"{view.__name__}: {_summary(view)}", *lines]))
    return "\n\n".join(groups)


def _summary(view: type[PipelineOptions]) -> str:
    return (view.__doc__ or "").strip().partition("\n")[0]


def _command_line() -> list[str]:
    return [] if sys.argv == command_line_of_pytest else sys.argv[1:]


# The error of each view that fails to declare its flags.  Weak, so that a class defined in a function is forgotten.
_broken: WeakKeyDictionary[type[PipelineOptions], str] = WeakKeyDictionary()


def flags_without_effect() -> frozenset[str]:
    """Return the flags of Beam that are accepted and have no effect, with their dashes."""
    return frozenset(flag for _, parser, _ in _usable() for flag in parser.without_effect())


def _usable() -> list[tuple[type[PipelineOptions], OptionsParser, dict[str, Any]]]:
    """Return all views with their parsers and defaults.  Log a warning once for each view that fails, and leave it
    out."""
    usable = []
    for view in views_of_options():
        try:
            parser = _parser(view)
            defaults = parser.defaults()
        except OptionsError as error:
            if view not in _broken:
                _logger.warning("%s Its options are unknown.", str(error))
            _broken[view] = str(error)
        else:
            _broken.pop(view, None)
            usable.append((view, parser, defaults))
    return usable


def _broken_ones() -> str:
    names = [view.__name__ for view in views_of_options() if view in _broken]
    return f" (the options of {', '.join(names)} are unknown, since it fails to declare them)" if names else ""


def views_of_options() -> Iterator[type[PipelineOptions]]:
    """Return all subclasses, bases first."""
    seen: dict[type[PipelineOptions], None] = {}
    pending = list(PipelineOptions.__subclasses__())
    while pending:
        view = pending.pop(0)
        seen.setdefault(view)
        pending.extend(view.__subclasses__())
    return iter(seen)


# The modules whose views always have the same flags and defaults.
_cached = {f"{__package__}.views"}


def have_fixed_flags(module: str) -> None:
    """Declare that the views of a module always have the same flags and defaults, so that their parsers are cached."""
    _cached.add(module)


class _KeptParsers(threading.local):
    """Parsers of one thread, since a parser changes while it parses."""

    def __init__(self) -> None:
        self.by_view: dict[type[PipelineOptions], OptionsParser] = {}


_kept = _KeptParsers()


def _parser(view: type[PipelineOptions]) -> OptionsParser:
    # Each pipeline needs parsers some twenty times, and creating them took a third of the time of a small pipeline.
    # Those of users aren't cached: they may have changing flags or defaults.
    if view is not PipelineOptions and view.__module__ not in _cached:
        return _new_parser(view)
    if view not in _kept.by_view:
        _kept.by_view[view] = _new_parser(view)
    return _kept.by_view[view]


def _new_parser(view: type[PipelineOptions]) -> OptionsParser:
    # argparse is imported on first use, so that importing penstock is fast.
    from .parser import OptionsParser

    parser = OptionsParser()
    for cls in view.__mro__:
        if "_add_argparse_args" in vars(cls) and cls is not PipelineOptions:
            try:
                vars(cls)["_add_argparse_args"].__get__(None, cls)(parser)
            except Exception as error:
                where = f"{cls.__module__}.{cls.__qualname__}"
                raise OptionsError(
                    f"{where}: its _add_argparse_args failed with {type(error).__name__}: {error}; the parser that it "
                    "is given is an argparse.ArgumentParser."
                ) from error
    parser.take_required()
    return parser


def _read(view: type[PipelineOptions], flags: list[str], given: dict[str, Any], check_required: bool) -> dict[str, Any]:
    """Return a view's defaults, and add the values of flags to `given` unless the options are given there.

    Prints the usage and raises `MissingOptionError` for a missing option, and `InvalidOptionError` for a flag with a
    wrong value.
    """
    parser = _parser(view)
    defaults = _read_by(parser, flags, given)
    missing = [flag for name, flag in parser.required.items() if name not in given]
    missing += [", ".join(each.values()) for each in parser.required_one_of if not any(name in given for name in each)]
    if missing and defaults and check_required:
        text = f"{view.__name__}: the option {missing[0]} is required and was not given"
        if "," in missing[0]:
            text = f"{view.__name__}: one of the options {missing[0]} is required"
        sys.stderr.write(f"{parser.usage_of_required()}{text}\n")
        raise MissingOptionError(text)
    return defaults


def _read_by(parser: OptionsParser, flags: list[str], given: dict[str, Any]) -> dict[str, Any]:
    defaults = parser.defaults()
    if defaults:
        try:
            values = parser.given(flags)
        except OptionsError as error:
            sys.stderr.write(f"{parser.usage_of_required()}{error}\n")
            raise InvalidOptionError(str(error)) from None
        for name, value in values.items():
            given.setdefault(name, value)
        parser.check_choices(given)
    return defaults


def _known() -> tuple[list[str], list[str]]:
    """Return the flags and the names of all options of all views."""
    usable = _usable()
    flags = [flag for _, parser, _ in usable for flag in parser.flags()]
    return flags, [name for _, _, defaults in usable for name in defaults]


def _shown(name: str, value: Any) -> Any:
    """Return the value, redacted if the option's name, the key in `key=value`, or a URL indicates a secret."""
    if value is not None and looks_secret(name):
        return HIDDEN
    if isinstance(value, dict):
        return {key: _shown(str(key), one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shown("", one) for one in value]
    if isinstance(value, str):
        name, equals, _value = value.partition("=")
        return f"{name}={HIDDEN}" if equals and "://" not in name and looks_secret(name) else redacted(value)
    return value
