"""Conditions: values to be equal to, or matchers of PyHamcrest.

PyHamcrest isn't required: without it matchers have its methods `matches` and `describe_to`, and no base class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...frozen import frozen

if TYPE_CHECKING:

    class BaseMatcher:
        """The base class of matchers."""

        def matches(self, item: Any, mismatch_description: Any = None) -> bool:
            """Return whether the item matches."""
            ...

        def describe_mismatch(self, item: Any, mismatch_description: Any) -> None:
            """Describe why the item doesn't match."""

else:
    try:
        from hamcrest.core.base_matcher import BaseMatcher
    except ImportError:

        class BaseMatcher:
            def matches(self, item, mismatch_description=None):
                return self._matches(item)


@frozen
class Condition:
    """The condition that a value is equal to another, or matches a matcher; None is met by all.

    >>> Condition(3).is_met_by(3), Condition(3).is_met_by(4), Condition(None).is_met_by(4)
    (True, False, True)
    """

    wanted: Any

    @property
    def is_given(self) -> bool:
        """Whether it isn't None."""
        return self.wanted is not None

    def is_met_by(self, value: Any) -> bool:
        """Return whether a value meets the condition."""
        if self.wanted is None:
            return True
        matches = getattr(self.wanted, "matches", None)
        if matches is not None and hasattr(self.wanted, "describe_to"):
            return bool(matches(value))
        return bool(value == self.wanted)

    def describe_to(self, description: Any) -> None:
        """Append the wanted value or the matcher to a description of PyHamcrest."""
        if hasattr(self.wanted, "describe_to"):
            self.wanted.describe_to(description)
        else:
            description.append_text(f"<{self.wanted!r}>")


def describe_all(conditions: dict[str, Condition], description: Any) -> None:
    """Append the given conditions, each behind its name."""
    for name, condition in conditions.items():
        if condition.is_given:
            description.append_text(f" {name}: ")
            condition.describe_to(description)
