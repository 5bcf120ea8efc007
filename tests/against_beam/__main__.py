"""Run all snippets and examples under Beam and under penstock, and compare what they print: `make beam`.

What Beam prints for the snippets is recorded.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from against_beam.two_sides import PENSTOCK, differing, examples_printed_by, listed, printed_by, record, sections, table


def main() -> int:
    """Return 1 if something differs that on_purpose.toml doesn't list, or doesn't differ and is listed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beam", required=True, help="the Python of an environment with apache-beam")
    parser.add_argument("--errors", action="store_true", help="show what both sides write to standard error")
    parser.add_argument("sections", nargs="*", help="modules of the snippets, or examples; all by default")
    arguments = parser.parse_args()

    chosen = arguments.sections or [*sections(), "examples"]
    both = ([arguments.beam], PENSTOCK)
    found, programs = {}, 0
    with ThreadPoolExecutor(2) as pool:
        if "examples" in chosen:
            by_beam, by_penstock = pool.map(examples_printed_by, both)
            programs += len(by_beam)
            found.update(differing("examples", by_beam, by_penstock))
        for section in [section for section in chosen if section != "examples"]:
            sides = [pool.submit(printed_by, side, section) for side in both]
            (by_beam, beams_errors), (by_penstock, our_errors) = (side.result() for side in sides)
            if arguments.errors:
                print(f"{section}: Beam\n{beams_errors}\n{section}: penstock\n{our_errors}", file=sys.stderr)
            record(section, by_beam)
            programs += len(by_beam)
            found.update(differing(section, by_beam, by_penstock))
    expected = {name for name in listed() if name.split(".")[0] in chosen}
    unlisted = {name: found[name] for name in found if name not in expected}
    equal = sorted(expected.difference(found))
    print(f"{programs} snippets and examples: {len(unlisted)} differ, {len(expected) - len(equal)} differ on purpose")
    if unlisted:
        print(table(unlisted))
    if equal:
        print("Listed in on_purpose.toml, and equal:", *equal)
    return 1 if unlisted or equal else 0


if __name__ == "__main__":
    sys.exit(main())
