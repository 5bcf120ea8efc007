"""Beam's names of Pub/Sub beside those that penstock has: reads of several topics and subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ....io.pubsub.client import Resource
from ....io.pubsub.read import ReadFromPubSub
from ....sdk.ptransform import PTransform
from ....sdk.pvalue import PBegin, PCollection
from ....transforms import Flatten

__all__ = ["MultipleReadFromPubSub", "PubSubSourceDescriptor", "parse_subscription", "parse_topic"]


def parse_topic(full_topic: str) -> tuple[str, str]:
    """Return the project and the name of a topic.  Raises `ValueError` for another path.

    >>> parse_topic("projects/shop/topics/orders")
    ('shop', 'orders')
    """
    return _parts(full_topic, "topics")


def parse_subscription(full_subscription: str) -> tuple[str, str]:
    """Return the project and the name of a subscription.  Raises `ValueError` for another path.

    >>> parse_subscription("projects/shop/subscriptions/orders")
    ('shop', 'orders')
    """
    return _parts(full_subscription, "subscriptions")


def _parts(path: str, kind: str) -> tuple[str, str]:
    found = Resource.of(f"parse_{kind[:-1]}", path, kind)
    return found.project, found.name


class PubSubSourceDescriptor(NamedTuple):
    """A topic or a subscription of `MultipleReadFromPubSub`.

    Attributes:
      source: 'projects/PROJECT/topics/NAME' or 'projects/PROJECT/subscriptions/NAME'.
      id_label, timestamp_attribute: as those of `ReadFromPubSub`.
    """

    source: str
    id_label: str | None = None
    timestamp_attribute: str | None = None


class MultipleReadFromPubSub(PTransform):
    """The messages of several topics and subscriptions.

    Args:
      pubsub_source_descriptors: which are read.
      with_attributes: gives `PubsubMessage`s; without it, elements are bytes.
    """

    def __init__(
        self, pubsub_source_descriptors: Sequence[PubSubSourceDescriptor], with_attributes: bool = False
    ) -> None:
        super().__init__()
        if not pubsub_source_descriptors:
            raise ValueError("MultipleReadFromPubSub: expected at least one topic or subscription")
        self._reads = [(each.source, _read(each, with_attributes)) for each in pubsub_source_descriptors]

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        read = [pbegin.pipeline | f"PubSub {source}" >> transform for source, transform in self._reads]
        messages: PCollection[Any] = read | Flatten()
        return messages


def _read(descriptor: PubSubSourceDescriptor, with_attributes: bool) -> ReadFromPubSub:
    is_topic = "/topics/" in descriptor.source
    return ReadFromPubSub(
        descriptor.source if is_topic else None,
        None if is_topic else descriptor.source,
        id_label=descriptor.id_label,
        with_attributes=with_attributes,
        timestamp_attribute=descriptor.timestamp_attribute,
    )
