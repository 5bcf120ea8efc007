"""The metadata file of a flex template: the parameters of a program, as flags with checks and defaults.

Source: Dataflow's documentation of flex templates, which lists the fields of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from ..frozen import frozen
from ..sdk.errors import OptionsError


@frozen
class TemplateParameter:
    """A parameter of a template.

    Attributes:
      regexes: expressions that all of the value match.
      choices: the only values; () for any.
      default: None without one.
    """

    name: str
    help: str = ""
    is_optional: bool = False
    regexes: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    default: str | None = None

    @staticmethod
    def of(given: Mapping[str, Any]) -> TemplateParameter:
        """Return the parameter that an entry of the file describes."""
        options = [each["value"] if isinstance(each, Mapping) else each for each in given.get("enumOptions") or ()]
        default = given.get("defaultValue")
        return TemplateParameter(
            given["name"],
            given.get("helpText") or given.get("label") or "",
            bool(given.get("isOptional")),
            tuple(given.get("regexes") or ()),
            tuple(map(str, options)),
            None if default is None else str(default),
        )


@frozen
class TemplateMetadata:
    """The metadata of a flex template.

    >>> words = TemplateParameter("input", regexes=("gs://.+",))
    >>> template = TemplateMetadata("count.json", "Count", (words, TemplateParameter("least", default="1")))
    >>> template.arguments(["--input=gs://lake/words"])
    ['--input=gs://lake/words', '--least=1']
    >>> template.arguments([])
    Traceback (most recent call last):
    penstock.sdk.errors.OptionsError: count.json: the template 'Count' needs --input
    """

    path: str
    name: str
    parameters: tuple[TemplateParameter, ...]

    @staticmethod
    def read(path: str) -> TemplateMetadata:
        """Read a file, on any file system.  Raises `OptionsError`, naming it, if it isn't such a file."""
        try:
            with import_module("fsspec").open(path, "rt") as file:
                found = json.load(file)
            parameters = tuple(TemplateParameter.of(each) for each in found.get("parameters") or ())
            name = found.get("name", path)
        except OSError as error:
            raise OptionsError(f"{path} can't be read: {error}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise OptionsError(f"{path} isn't the metadata of a flex template: {error!r}") from error
        return TemplateMetadata(path, name, parameters)

    def arguments(self, given: Sequence[str]) -> list[str]:
        """Return the flags of a run: those that are given, and the defaults of others.

        Raises `OptionsError`, naming the flag, for one that is missing, or whose value the template doesn't take.
        """
        values = _values_of(given)
        found = list(given)
        for parameter in self.parameters:
            value = values.get(parameter.name)
            if value is not None:
                self._check(parameter, value)
            elif parameter.default is not None:
                found.append(f"--{parameter.name}={parameter.default}")
            elif not parameter.is_optional:
                raise OptionsError(f"{self.path}: the template {self.name!r} needs --{parameter.name}")
        return found

    def _check(self, parameter: TemplateParameter, value: str) -> None:
        flag = f"{self.path}: --{parameter.name}={value}"
        if parameter.choices and value not in parameter.choices:
            raise OptionsError(f"{flag}: expected one of {', '.join(parameter.choices)}")
        for regex in parameter.regexes:
            if re.fullmatch(regex, value) is None:
                raise OptionsError(f"{flag}: expected a value that matches {regex!r}")


def _values_of(arguments: Sequence[str]) -> dict[str, str]:
    """Return the values of flags, given as `--name=value` or `--name value`, by name."""
    found = {}
    for argument, following in zip(arguments, [*arguments[1:], ""]):
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            found[name] = value if equals else following
    return found


def template_arguments(path: str, given: Sequence[str]) -> list[str]:
    """Return the flags of a run of a program, for the metadata file of its template."""
    return TemplateMetadata.read(path).arguments(given)
