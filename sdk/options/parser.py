"""The parser of one view's flags.  Raises `OptionsError` where argparse would end the program."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from ..errors import OptionsError
from ..redaction import HIDDEN, looks_secret

_TYPE_NAMES = {int: "an int", float: "a number", str: "a string", bool: "true or false"}


class OptionsParser(argparse.ArgumentParser):
    """An argparse parser that says which of its flags were given, and complains by exceptions.

    Attributes:
      required: by name, the flags that have to be given, here or as a keyword.
    """

    def __init__(self) -> None:
        # Not --help: the command line may be the program's own.
        super().__init__(
            usage=argparse.SUPPRESS, add_help=False, allow_abbrev=False, conflict_handler="resolve", exit_on_error=False
        )
        self.required: dict[str, str] = {}

    def add_argument(self, *args: Any, **kwargs: Any) -> argparse.Action:
        """As argparse, except that whether a required one is there is the view's business."""
        is_required = kwargs.pop("required", False)
        # A function is argparse's way to say it; bool("False") is True, which nobody means.
        if kwargs.get("type") is bool:
            kwargs["type"] = _boolean
        action = super().add_argument(*args, **kwargs)
        if is_required:
            self.required[action.dest] = action.option_strings[-1] if action.option_strings else action.dest
        return action

    def flags(self) -> list[str]:
        """All flags, such as `--runner`."""
        return [flag for action in self._actions for flag in action.option_strings]

    def defaults(self) -> dict[str, Any]:
        """The names of all options and their values when nothing is said."""
        return vars(self._parse([]))

    def given(self, arguments: list[str]) -> dict[str, Any]:
        """The options that the arguments speak of, and their values."""
        values = vars(self._parse(arguments))
        # Once more without defaults: what appears now was given.
        before = {action: action.default for action in self._actions}
        for action in self._actions:
            action.default = argparse.SUPPRESS
        try:
            names = set(vars(self._parse(arguments)))
        finally:
            for action, default in before.items():
                action.default = default
        return {name: value for name, value in values.items() if name in names}

    def check_choices(self, given: dict[str, Any]) -> None:
        """Raises `OptionsError` for an option, however it was given, that is none of its choices."""
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
            raise OptionsError(f"option {_name(action)}: expected one of {choices}, got {_shown(action, value)}")

    def error(self, message: str) -> NoReturn:
        """Raises instead of ending the program."""
        raise OptionsError(f"options: {message}")


def _name(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else action.dest


def _shown(action: argparse.Action, value: Any) -> str:
    return HIDDEN if looks_secret(action.dest) else repr(value)


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "1", "yes"):
        return True
    if text.lower() in ("false", "0", "no"):
        return False
    raise argparse.ArgumentTypeError("expected true or false")
