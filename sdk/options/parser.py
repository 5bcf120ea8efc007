"""The parser of one view's flags.  Raises `OptionsError` instead of ending the program as argparse does."""

from __future__ import annotations

import argparse
from copy import copy
from typing import Any, NoReturn

from ..errors import OptionsError
from ..redaction import HIDDEN, looks_secret

_WIDTH = 80


# By option and value that is none any more, what the error adds.
_REMOVED = {
    ("checkpoint_mode", "synchronous"): "; aligned barriers give the same without a pause of the sources",
}


class CommaSeparated(argparse.Action):
    """Add the values of a flag to a list.  A comma separates two values, except within `name=a=b,c=d`."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        entries: list[str] = [*(getattr(namespace, self.dest, None) or [])]
        parts = str(values).split(",")
        while parts:
            entry = parts.pop(0)
            if entry.count("=") > 1:
                entry, parts = ",".join([entry, *parts]), []
            if entry.strip():
                entries.append(entry.strip())
        setattr(namespace, self.dest, entries)


# The value of a positional argument that wasn't given.
_NOT_GIVEN = object()

_TYPE_NAMES = {int: "an int", float: "a number", str: "a string", bool: "true or false"}


class OptionsParser(argparse.ArgumentParser):
    """An argparse parser that tells which of its flags were given, and raises its errors.

    Attributes:
      required: by name, the flags that must be given, as a flag or as a keyword.
      required_one_of: groups of flags, one of which must be given.
    """

    def __init__(self, **kwargs: Any) -> None:
        # Without --help, since the command line may be the program's own.
        own: dict[str, Any] = {"usage": argparse.SUPPRESS, "add_help": False, "allow_abbrev": False}
        own.update(conflict_handler="resolve", exit_on_error=False)
        super().__init__(**{**kwargs, **own})
        self._width: int | None = _WIDTH
        self.required: dict[str, str] = {}
        self.required_one_of: list[dict[str, str]] = []
        # Of all parsers, a small pipeline asks some forty times.
        self._own_defaults: dict[str, Any] | None = None
        self._has_mutable = False

    def add_value_provider_argument(self, *args: Any, **kwargs: Any) -> argparse.Action:
        """Add a flag whose value has a method `get`, as for Beam's templates.

        The value of a given flag is known immediately, the default is known during the run.
        """
        from .value_provider import RuntimeValueProvider

        kind: Any = kwargs.pop("type", None) or str
        flag = next((arg for arg in args if arg.startswith("--")), args[0])
        if not flag.startswith("-"):
            kwargs.setdefault("nargs", "?")
        kwargs["default"] = RuntimeValueProvider(flag.lstrip("-"), kind, kwargs.get("default"))
        if kwargs.get("action", "store") == "store":
            kwargs["type"] = _provided(kind)
        return self.add_argument(*args, **kwargs)

    def _get_formatter(self) -> argparse.HelpFormatter:
        # Called for each argument, to check its metavar; without a width it asks the terminal.
        return argparse.HelpFormatter(prog=self.prog, width=self._width)

    def format_help(self) -> str:
        """Return the help text, as wide as the terminal."""
        self._width = None
        try:
            return super().format_help()
        finally:
            self._width = _WIDTH

    def take_required(self) -> None:
        """Move the required flags from argparse to this object, since keywords may give them as well."""
        for action in self._actions:
            # bool("False") is True, which is never intended.
            if action.type is bool:
                action.type = _boolean
            if action.required:
                action.required = False
                self.required[action.dest] = _name(action)
        for group in self._mutually_exclusive_groups:
            if group.required:
                group.required = False
                self.required_one_of.append({action.dest: _name(action) for action in group._group_actions})

    def usage_of_required(self) -> str:
        """Return the usage of the flags, of which the required ones are shown as such."""
        formatter = argparse.HelpFormatter(prog=self.prog)
        for action in self._actions:
            action.required = action.dest in self.required
        formatter.add_usage(None, self._actions, self._mutually_exclusive_groups)
        shown = formatter.format_help()
        for action in self._actions:
            action.required = False
        return shown

    def flags(self) -> list[str]:
        """Return all flags, such as `--runner`."""
        return [flag for action in self._actions for flag in action.option_strings]

    def without_effect(self) -> dict[str, str]:
        """Return the flags of Beam that have no effect, with the names of their options."""
        actions = [action for action in self._actions if getattr(action, "without_effect", False)]
        return {flag: action.dest for action in actions for flag in action.option_strings}

    def reasons(self) -> dict[str, str]:
        """Return the reasons why options of Beam have no effect, by the names of the options that have one."""
        found = {action.dest: getattr(action, "without_effect", False) for action in self._actions}
        return {name: why for name, why in found.items() if isinstance(why, str)}

    def defaults(self) -> dict[str, Any]:
        """Return the names of all options with their defaults, which the caller may change."""
        if self._own_defaults is None:
            self._own_defaults = vars(self._parse([]))
            self._has_mutable = any(isinstance(value, (list, dict)) for value in self._own_defaults.values())
        if not self._has_mutable:
            return self._own_defaults.copy()
        found = self._own_defaults.items()
        return {name: copy(value) if isinstance(value, (list, dict)) else value for name, value in found}

    def given(self, arguments: list[str]) -> dict[str, Any]:
        """Return the options in the arguments, with their values."""
        if not self._may_have(arguments):
            return {}
        values = vars(self._parse(arguments))
        # Parsed again without defaults, so that only given options have values.
        before = {action: action.default for action in self._actions}
        for action in self._actions:
            # argparse converts the default of a positional argument if it is a string.
            action.default = argparse.SUPPRESS if action.option_strings else _NOT_GIVEN
        try:
            names = {name for name, value in vars(self._parse(arguments)).items() if value is not _NOT_GIVEN}
        finally:
            for action, default in before.items():
                action.default = default
        return {name: value for name, value in values.items() if name in names}

    def _may_have(self, arguments: list[str]) -> bool:
        """Whether the arguments may have options of this parser, which is known without parsing them."""
        if not arguments:
            return False
        if any(not flag.startswith("--") for action in self._actions for flag in action.option_strings or ("",)):
            return True
        return any(argument.partition("=")[0] in self._option_string_actions for argument in arguments)

    def others(self, arguments: list[str]) -> list[str]:
        """Return the arguments that are none of this parser's."""
        return self.parse_known_args(arguments)[1]

    def check_choices(self, given: dict[str, Any]) -> None:
        """Raise `OptionsError` for an option whose value is not among its choices."""
        for action in self._actions:
            value = given.get(action.dest)
            if value is not None and action.nargs is None and not isinstance(value, list):
                self._check_value(action, value)

    def _parse(self, arguments: list[str]) -> argparse.Namespace:
        try:
            return self.parse_known_args(arguments)[0]
        except argparse.ArgumentError as error:
            raise OptionsError(f"option {error.argument_name}: {error.message}") from None

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            cause = error.__context__
            if isinstance(cause, argparse.ArgumentTypeError):
                expected = str(cause)
            else:
                kind: Any = action.type
                expected = f"expected {_TYPE_NAMES.get(kind, getattr(kind, '__name__', repr(kind)))}"
            raise OptionsError(f"option {_name(action)}: {expected}, got {_shown(action, arg_string)}") from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = ", ".join(map(repr, action.choices))
            hint = _REMOVED.get((action.dest, value), "")
            raise OptionsError(f"option {_name(action)}: expected one of {choices}, got {_shown(action, value)}{hint}")

    def error(self, message: str) -> NoReturn:
        """Raise instead of ending the program."""
        raise OptionsError(f"options: {message}")


def _name(action: argparse.Action) -> str:
    """Return the first long flag of an option; those behind it are other names for it."""
    flags = action.option_strings
    return next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else action.dest)


def _shown(action: argparse.Action, value: Any) -> str:
    return HIDDEN if looks_secret(action.dest) else repr(value)


def _provided(kind: Any) -> Any:
    from .value_provider import StaticValueProvider

    def provided(text: str) -> StaticValueProvider:
        return StaticValueProvider(kind, _boolean(text) if kind is bool else text)

    provided.__name__ = getattr(kind, "__name__", repr(kind))
    return provided


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "1", "yes"):
        return True
    if text.lower() in ("false", "0", "no"):
        return False
    raise argparse.ArgumentTypeError("expected true or false")
