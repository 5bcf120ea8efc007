"""TextMethods: the functions of text of a deferred series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..sdk.columns import pandas_functions
from ..sdk.columns.expressions import Column
from .frame_base import refuse, refuse_arguments


class TextMethods:
    """The functions of text of a series: `series.str`.

    Args:
      column: the series' expression.
      series_of: returns a series of the same rows.
    """

    def __init__(self, column: Column, series_of: Callable[[Column], Any]) -> None:
        self._column = column
        self._series_of = series_of

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        function = _TEXT.get(name)
        if function is None:
            refuse(f"str.{name}", "series")
        return lambda *arguments: self._series_of(pandas_functions.text_function(self._column, function, *arguments))

    def contains(self, pat: str, case: bool = True, regex: bool = True, **arguments: Any) -> Any:
        """Return whether values contain a pattern, false for None."""
        refuse_arguments("str.contains", arguments, flags=0, na=False)
        found = pandas_functions.text_contains(self._column, pat, regex, not case)
        return self._series_of(pandas_functions.filled(found, False))

    def replace(self, pat: str, repl: str, regex: bool = False) -> Any:
        """Return values with a pattern replaced."""
        name = "replace_substring_regex" if regex else "replace_substring"
        return self._series_of(pandas_functions.text_function(self._column, name, pat, repl))


_TEXT = {
    "lower": "utf8_lower",
    "upper": "utf8_upper",
    "title": "utf8_title",
    "capitalize": "utf8_capitalize",
    "swapcase": "utf8_swapcase",
    "strip": "utf8_trim_whitespace",
    "lstrip": "utf8_ltrim_whitespace",
    "rstrip": "utf8_rtrim_whitespace",
    "len": "utf8_length",
    "startswith": "starts_with",
    "endswith": "ends_with",
    "isalpha": "utf8_is_alpha",
    "isdigit": "utf8_is_digit",
    "isupper": "utf8_is_upper",
    "islower": "utf8_is_lower",
}
