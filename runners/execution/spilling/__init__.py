"""Memory that things take, and RocksDB for what has no room in it."""
