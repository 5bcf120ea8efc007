"""Run all snippets under Beam and under penstock, record what Beam prints, and compare: `make beam`."""

from __future__ import annotations

import argparse
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from beam.two_sides import PENSTOCK, differing, listed, printed_by, record, sections, table


def main() -> int:
    """Return 1 if something differs that on_purpose.toml doesn't list, or doesn't differ and is listed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beam", required=True, help="the Python of an environment with apache-beam")
    parser.add_argument("--errors", action="store_true", help="show what both sides write to standard error")
    parser.add_argument("sections", nargs="*", default=sections(), help="modules of tests/beam/snippets")
    arguments = parser.parse_args()

    found, snippets = {}, 0
    with ThreadPoolExecutor(2) as pool:
        for section in arguments.sections:
            sides = [pool.submit(printed_by, side, section) for side in ([arguments.beam], PENSTOCK)]
            (by_beam, beams_errors), (by_penstock, our_errors) = (side.result() for side in sides)
            if arguments.errors:
                print(f"{section}: Beam\n{beams_errors}\n{section}: penstock\n{our_errors}", file=sys.stderr)
            record(section, by_beam)
            snippets += len(by_beam)
            found.update(differing(section, by_beam, by_penstock))
    expected = {name for name in listed() if name.split(".")[0] in arguments.sections}
    unlisted = {name: found[name] for name in found if name not in expected}
    equal = sorted(expected.difference(found))
    print(f"{snippets} snippets: {len(unlisted)} differ, {len(expected) - len(equal)} differ on purpose")
    if unlisted:
        print(table(unlisted))
    if equal:
        print("Listed in on_purpose.toml, and equal:", *equal)
    return 1 if unlisted or equal else 0


if __name__ == "__main__":
    sys.exit(main())
