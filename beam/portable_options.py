"""Options in Beam's portable form, and the compatibility with its earlier versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..sdk.errors import OptionsError
from ..sdk.options.pipeline_options import PipelineOptions


def to_runner_api(self: PipelineOptions) -> dict[str, Any]:
    """Return the options that differ from their default, by Beam's URN, as a plain dictionary of plain values.

    >>> PipelineOptions([], streaming=True).to_runner_api()
    {'beam:option:streaming:v1': True}
    """
    options = self.get_all_options(drop_default=True, retain_unknown_options=True)
    return {f"beam:option:{name}:v1": _plain(value) for name, value in options.items() if value is not None}


def from_runner_api(
    cls: type[PipelineOptions], proto_options: Mapping[str, Any], original_options: PipelineOptions | None = None
) -> PipelineOptions:
    """Return the options of `to_runner_api`, or merge them into others, whose runner and experiments stay.

    Raises `OptionsError` for a key that isn't such a URN.
    """
    given = {}
    for urn, value in proto_options.items():
        if not (urn.startswith("beam:option:") and urn.endswith(":v1")):
            raise OptionsError(f"expected the URN of an option, such as 'beam:option:streaming:v1', got {urn!r}")
        given[urn[len("beam:option:") : -len(":v1")]] = value
    if original_options is None:
        return cls([], **given)
    for name, value in given.items():
        if value and name not in ("runner", "experiments"):
            original_options.given().update(PipelineOptions([], **{name: value}).given())
    return original_options


def is_compat_version_prior_to(self: PipelineOptions, breaking_change_version: str) -> bool:
    """Return whether `--update_compatibility_version` is given and is earlier than a version such as "2.72.0"."""
    given = self.get_all_options().get("update_compatibility_version")
    if given is None:
        return False
    first, second = ([int(n) for n in [*text.split("."), 0, 0][:3]] for text in (given, breaking_change_version))
    return first < second


def _plain(value: Any) -> Any:
    """Return a value of numbers, texts, lists and dictionaries; anything else as text."""
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    return str(value)
