"""Matchers of the metrics of a run, for PyHamcrest.

>>> from penstock.sdk.metrics import MetricKey, MetricName, MetricResult
>>> result = MetricResult(MetricKey("Read", MetricName("app", "lines")), committed=3, attempted=4)
>>> MetricResultMatcher(name="lines", committed=3).matches(result)
True
>>> verify_all([result], [MetricResultMatcher(name="lines", step="Read")])
''
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...sdk.metrics import DistributionResult, MetricResult
from .matching import BaseMatcher, Condition, describe_all


class MetricResultMatcher(BaseMatcher):
    """Matcher of a `MetricResult`, whose arguments are values or matchers.

    Args:
      namespace, name, step: of the metric's key.
      labels: of the key; each must match one of the result's labels.
      attempted, committed: its values.
    """

    def __init__(
        self,
        namespace: Any = None,
        name: Any = None,
        step: Any = None,
        labels: Mapping[Any, Any] | None = None,
        attempted: Any = None,
        committed: Any = None,
    ) -> None:
        self.conditions = {
            "namespace": Condition(namespace),
            "name": Condition(name),
            "step": Condition(step),
            "attempted": Condition(attempted),
            "committed": Condition(committed),
        }
        self.labels = [(Condition(key), Condition(value)) for key, value in (labels or {}).items()]

    def _matches(self, item: MetricResult) -> bool:
        found = {
            "namespace": item.key.metric.namespace,
            "name": item.key.metric.name,
            "step": item.key.step,
            "attempted": item.attempted,
            "committed": item.committed,
        }
        labels = item.key.labels.items()
        return all(condition.is_met_by(found[name]) for name, condition in self.conditions.items()) and all(
            any(key.is_met_by(name) and value.is_met_by(text) for name, text in labels) for key, value in self.labels
        )

    def describe_to(self, description: Any) -> None:
        """Append what is expected to a description of PyHamcrest."""
        describe_all(self.conditions, description)
        for key, value in self.labels:
            describe_all({"label": key, "with value": value}, description)

    def describe_mismatch(self, item: Any, mismatch_description: Any) -> None:
        """Append what was found."""
        mismatch_description.append_text(f"was {item}")


class DistributionMatcher(BaseMatcher):
    """Matcher of a `DistributionResult`, whose arguments are values or matchers."""

    def __init__(
        self, sum_value: Any = None, count_value: Any = None, min_value: Any = None, max_value: Any = None
    ) -> None:
        self.conditions = {
            "sum": Condition(sum_value),
            "count": Condition(count_value),
            "min": Condition(min_value),
            "max": Condition(max_value),
        }

    def _matches(self, item: Any) -> bool:
        return isinstance(item, DistributionResult) and all(
            condition.is_met_by(getattr(item, name)) for name, condition in self.conditions.items()
        )

    def describe_to(self, description: Any) -> None:
        """Append what is expected to a description of PyHamcrest."""
        describe_all(self.conditions, description)

    def describe_mismatch(self, item: Any, mismatch_description: Any) -> None:
        """Append what was found."""
        mismatch_description.append_text(f"was {item}")


class _Text:
    """A description, as PyHamcrest's."""

    def __init__(self) -> None:
        self.text = ""

    def append_text(self, text: str) -> _Text:
        self.text += text
        return self

    def append_description_of(self, value: Any) -> _Text:
        if hasattr(value, "describe_to"):
            value.describe_to(self)
            return self
        return self.append_text(f"<{value!r}>")

    append = append_text
    append_value = append_description_of

    def append_list(self, start: str, separator: str, end: str, values: Iterable[Any]) -> _Text:
        self.append_text(start)
        for i, value in enumerate(values):
            self.append_text(separator if i else "").append_description_of(value)
        return self.append_text(end)


def verify_all(all_metrics: Iterable[MetricResult], matchers: Iterable[Any]) -> str:
    """Return a text that names the matchers without a matching metric, and the metrics; "" if all match."""
    metrics = list(all_metrics)
    missing = []
    for matcher in matchers:
        if not any(matcher.matches(metric) for metric in metrics):
            description = _Text()
            matcher.describe_to(description)
            missing.append(f"Unable to match metrics for matcher{description.text}")
    return "\n".join([*missing, "Actual MetricResults:", *map(str, metrics)]) if missing else ""
