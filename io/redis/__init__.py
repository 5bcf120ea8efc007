"""Redis: `ReadFromRedisStream` in `source`, `WriteToRedis` in `sink`, `WriteToRedisStream` in `stream_sink`.

Both sinks commit in one transaction of the server. `changes` computes the net effect of signed changes; `server` reads
the URL.
"""
