"""Run the shop: `python tests/shop` for a while, or `python tests/shop --kills=20` with parts of it killed meanwhile.

It starts PostgreSQL, Kafka and the web service, and the application (`examples/shop`).  Things happen in the shop, and
after each while the tables are compared with what they have to be.
"""

from __future__ import annotations

import argparse
import pathlib
import secrets
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from shop.running_shop import PARTS, RunningShop, why_there_is_no_shop


def main() -> None:
    """Run until so many parts were killed, or so many rounds are over; wrong tables end it."""
    parser = argparse.ArgumentParser(prog="tests/shop", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="how often things happen")
    parser.add_argument("--kills", type=int, default=0, help="how many parts to kill, one in each round")
    parser.add_argument("--changes", type=int, default=200, help="how many changes there are in a round")
    parser.add_argument("--seed", default=secrets.token_hex(4))
    options = parser.parse_args()
    if reason := why_there_is_no_shop():
        sys.exit(reason)
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="penstock-shop-") as directory,
        RunningShop.running(pathlib.Path(directory), options.seed) as shop,
    ):
        print(f"The shop runs in {directory}; seed {options.seed}", flush=True)
        for number in range(options.kills or options.rounds):
            shop.go_on(options.changes)
            killed = ""
            if options.kills:
                part = PARTS[number % len(PARTS)]
                shop.kill(part)
                # While the part starts again.
                shop.go_on(options.changes)
                killed = f"{part} was killed; "
            seconds = shop.wait_for_tables()
            print(f"{number + 1:3}: {killed}the tables are right after {seconds:.1f} s", flush=True)
        for line in shop.dashboard():
            print("    {:10} {:5} orders, {:6} due, {:6} paid".format(*line))
        shop.drain()
    print(f"{shop.watch.looks} looks at the tables, none wrong; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
