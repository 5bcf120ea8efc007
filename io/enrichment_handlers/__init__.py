"""Handlers of `Enrichment`: services that are asked for each row.

`http` asks a web service, `sql` a database, and `redis` a Redis server.
"""

from .http import HttpEnrichmentHandler
from .redis import RedisEnrichmentHandler
from .sql import SqlEnrichmentHandler

__all__ = ["HttpEnrichmentHandler", "RedisEnrichmentHandler", "SqlEnrichmentHandler"]
