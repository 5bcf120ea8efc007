"""Fetch Kafka's broker and the schema registry before the tests: `python -m kafka.fetch`."""

from __future__ import annotations

import os

from kafka.packages import why_there_is_no_broker
from kafka.registry import why_there_is_no_registry
from servers import archived_java

# Spark fetches the broker.
os.environ.update(archived_java.settings())
for missing in (why_there_is_no_broker, why_there_is_no_registry):
    if reason := missing():
        print(f"{reason}; the tests that need it will be skipped")
