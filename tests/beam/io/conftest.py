"""Fixtures of servers, as the tests of the core's sources and sinks have them."""

from servers.fixtures import bigquery as bigquery
from servers.fixtures import directory as directory
from servers.fixtures import gcs as gcs
from servers.fixtures import name as name
from servers.fixtures import pubsub as pubsub
from servers.fixtures import topic as topic
