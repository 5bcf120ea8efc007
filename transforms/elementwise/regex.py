"""Regex: regular expressions applied to strings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from ...sdk import typehints
from ...sdk.dofn.dofn import FlatMapDoFn
from ..par_do.pardo import ParDo


class Regex:
    """Transforms of strings by a regular expression, which is given as a string or compiled.

    A group is given by its number or its name; 0 is the whole match.  An unknown group raises `ValueError`.

    >>> import penstock as beam
    >>> ["a 1", "b", "c 23"] | beam.Regex.find(r"\\d+")
    ['1', '23']
    >>> ["a 1", "b"] | beam.Regex.replace_all(r"\\d", "?")
    ['a ?', 'b']
    """

    # Selects all groups in `find_all`.
    ALL = "__regex_all_groups"

    @staticmethod
    def matches(regex: str | re.Pattern[str], group: int | str = 0) -> ParDo[str, str]:
        """The group of each string whose beginning matches.

        Returns a `PCollection[str]`.
        """
        pattern = _compiled("matches", regex, group)

        def found(element: str) -> Iterable[Any]:
            match = pattern.match(element)
            return (match.group(group),) if match else ()

        return _RegexTransform("matches", pattern, found, str)

    @staticmethod
    def all_matches(regex: str | re.Pattern[str]) -> ParDo[str, list[str]]:
        """All groups, the whole match first, of each string whose beginning matches.

        Returns a `PCollection[list[str]]`.
        """
        pattern = _compiled("all_matches", regex)

        def found(element: str) -> Iterable[Any]:
            match = pattern.match(element)
            return ([match.group(), *match.groups()],) if match else ()

        return _RegexTransform("all_matches", pattern, found, list[str])

    @staticmethod
    def matches_kv(
        regex: str | re.Pattern[str], keyGroup: int | str, valueGroup: int | str = 0
    ) -> ParDo[str, tuple[str, str]]:
        """Two groups as a pair, of each string whose beginning matches.

        Returns a `PCollection[tuple[str, str]]`.
        """
        pattern = _compiled("matches_kv", regex, keyGroup, valueGroup)

        def found(element: str) -> Iterable[Any]:
            match = pattern.match(element)
            return ((match.group(keyGroup), match.group(valueGroup)),) if match else ()

        return _RegexTransform("matches_kv", pattern, found, typehints.pair_of(str, str))

    @staticmethod
    def find(regex: str | re.Pattern[str], group: int | str = 0) -> ParDo[str, str]:
        """The group of the first match in each string that has one.

        Returns a `PCollection[str]`.
        """
        pattern = _compiled("find", regex, group)

        def found(element: str) -> Iterable[Any]:
            match = pattern.search(element)
            return (match.group(group),) if match else ()

        return _RegexTransform("find", pattern, found, str)

    @staticmethod
    def find_all(regex: str | re.Pattern[str], group: int | str = 0, outputEmpty: bool = True) -> ParDo[str, list[Any]]:
        """The group of every match in each string, as a list.

        Returns a `PCollection[list[str]]`, or of lists of pairs.

        With `Regex.ALL` for the group, pairs of the whole match and its first group.  Without
        `outputEmpty`, empty strings are left out.
        """
        if group == Regex.ALL:
            pattern = _compiled("find_all", regex, 1)
            of_match: Callable[[Any], Any] = lambda match: (match.group(), match.group(1))  # noqa: E731
            tested: int | str = 1
        else:
            pattern = _compiled("find_all", regex, group)
            of_match = lambda match: match.group(group)  # noqa: E731
            tested = group

        def found(element: str) -> Iterable[Any]:
            return ([of_match(m) for m in pattern.finditer(element) if outputEmpty or m.group(tested)],)

        return _RegexTransform("find_all", pattern, found, list[Any])

    @staticmethod
    def find_kv(
        regex: str | re.Pattern[str], keyGroup: int | str, valueGroup: int | str = 0
    ) -> ParDo[str, tuple[str, str]]:
        """Two groups as a pair, of every match in each string.

        Returns a `PCollection[tuple[str, str]]`.
        """
        pattern = _compiled("find_kv", regex, keyGroup, valueGroup)

        def found(element: str) -> Iterable[Any]:
            return [(match.group(keyGroup), match.group(valueGroup)) for match in pattern.finditer(element)]

        return _RegexTransform("find_kv", pattern, found, typehints.pair_of(str, str))

    @staticmethod
    def replace_all(regex: str | re.Pattern[str], replacement: str) -> ParDo[str, str]:
        """Each string with every match replaced.

        Returns a `PCollection[str]`.
        """
        pattern = _compiled("replace_all", regex)
        return _RegexTransform("replace_all", pattern, lambda s: (pattern.sub(replacement, s),), str)

    @staticmethod
    def replace_first(regex: str | re.Pattern[str], replacement: str) -> ParDo[str, str]:
        """Each string with the first match replaced.

        Returns a `PCollection[str]`.
        """
        pattern = _compiled("replace_first", regex)
        return _RegexTransform("replace_first", pattern, lambda s: (pattern.sub(replacement, s, count=1),), str)

    @staticmethod
    def split(regex: str | re.Pattern[str], outputEmpty: bool = False) -> ParDo[str, list[str]]:
        """Each string split by the matches, as a list; without the empty strings unless `outputEmpty`.

        Returns a `PCollection[list[str]]`.
        """
        pattern = _compiled("split", regex)

        def parts(element: str) -> Iterable[Any]:
            return ([part for part in pattern.split(element) if part or outputEmpty],)

        return _RegexTransform("split", pattern, parts, list[str])


class _RegexTransform(ParDo[str, Any]):
    def __init__(self, name: str, pattern: re.Pattern[Any], fn: Callable[[Any], Iterable[Any]], produced: Any) -> None:
        super().__init__(FlatMapDoFn(fn))
        self.name = name
        self.pattern = pattern
        if isinstance(pattern.pattern, str):
            self._input_hint, self._output_hint = str, produced

    def default_label(self) -> str:
        return f"Regex.{self.name}({str(self.pattern.pattern)[:40]})"


def _compiled(name: str, regex: str | re.Pattern[str], *groups: int | str) -> re.Pattern[str]:
    if not isinstance(regex, (str, re.Pattern)):
        raise TypeError(f"Regex.{name}: expected a regular expression, got {regex!r}")
    pattern = re.compile(regex)
    for group in groups:
        known = group in pattern.groupindex if isinstance(group, str) else 0 <= group <= pattern.groups
        if not known:
            raise ValueError(f"Regex.{name}: {pattern.pattern!r} has no group {group!r}")
    return pattern
