"""A web service that knows the category and the price of each item: `python -m penstock.examples.shop.prices PORT`.

It answers `GET /items/tea` with a JSON object.

>>> PRICES["tea"]
('drinks', 3)
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

PRICES = {
    "tea": ("drinks", 3),
    "coffee": ("drinks", 5),
    "bread": ("food", 2),
    "jam": ("food", 4),
    "soap": ("household", 1),
    "candle": ("household", 7),
}

# How long an answer takes, in seconds.
_TAKES = 0.02


class Prices(BaseHTTPRequestHandler):
    """Answers one request."""

    def do_GET(self) -> None:
        """Answer with the item's category and price."""
        time.sleep(_TAKES)
        item = unquote(self.path.removeprefix("/items/"))
        found = PRICES.get(item)
        if found is None:
            self.send_error(404)
            return
        content = json.dumps({"category": found[0], "price": found[1]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        """Say nothing of requests."""


def main(port: int) -> None:
    """Serve until the process ends."""
    with ThreadingHTTPServer(("127.0.0.1", port), Prices) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
