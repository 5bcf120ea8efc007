"""A topic of a test's own, with a subscription."""

from servers.fixtures import name as name
from servers.fixtures import pubsub as pubsub
