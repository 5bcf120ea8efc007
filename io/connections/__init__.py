"""Connections to servers, databases and stores: what connectors share.

server_connection.py   ServerConnection: the base class of what transforms know of a server
lost_connections.py    errors of stores and databases that may answer later
waiting.py             waits for a store that doesn't answer
retry.py               retries of calls that fail for a while, with growing delays (Beam's `utils.retry`)
tls.py                 files of an encrypted connection
google_credentials.py  credentials of Google's clients, also of an impersonated account
prefetching_reader.py  base class of readers whose client fetches in threads of its own
recent_ids.py          ids of the last messages that were read, by which repeated ones are dropped
"""
