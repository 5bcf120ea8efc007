"""`python docs/tables.py` writes the tables of the pages on performance, which it makes of result files.

A page has a comment above each table, and one below it:

    <!-- table: performance.json all_cores -->
    <!-- end of table -->

The file is beside the page, and the rest names the benchmarks of the table.  The files are what `python benchmarks
--results FILE` writes.  The site is built with the tables of the files (conf.py), and a test compares them with those
of the pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent

TABLE = re.compile(r"(?<=<!-- table: )(?P<file>\S+) (?P<names>.+?) -->\n.*?(?=<!-- end of table -->)", re.DOTALL)


def with_tables(text: str, directory: Path = DOCS) -> str:
    """Return a page with the tables of its result files."""

    def table(found: re.Match[str]) -> str:
        benchmarks = json.loads((directory / found["file"]).read_text())["benchmarks"]
        names = found["names"].split("; ")
        made = nexmark_table if "query" in benchmarks[names[0]]["found"][0] else comparison_table
        lines = "\n".join(made({name: benchmarks[name] for name in names}))
        return f"{found['file']} {found['names']} -->\n{lines}\n"

    return TABLE.sub(table, text)


def comparison_table(benchmarks: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table of comparisons, with when each benchmark was measured.

    >>> about = {"date": "2026-11-26", "python": "3.11.7", "cores": 2, "load": 0.4}
    >>> ratio = {"kind": "ratio", "name": "sums", "ours": 1.5, "by_hand": 1.0, "limit": 2.0}
    >>> print(*comparison_table({"windowed_sums": {**about, "found": [ratio]}}), sep="\\n")
    | benchmark | comparison | penstock | compared with | ratio | limit | measured |
    | --- | --- | --- | --- | --- | --- | --- |
    | `windowed_sums` | sums | 1.50 s | 1.00 s | 1.50 | 2.00 | 2026-11-26, load 0.4 |
    """
    lines = ["| benchmark | comparison | penstock | compared with | ratio | limit | measured |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for name, benchmark in benchmarks.items():
        load = f", load {benchmark['load']:g}" if "load" in benchmark else ""
        for one in benchmark["found"]:
            cells = [f"`{name}`", one["name"], *_cells(one), benchmark["date"] + load]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cells(one: Mapping[str, Any]) -> list[str]:
    if one["kind"] == "ratio":
        ratio, is_over = one["ours"] / one["by_hand"], one["ours"] / one["by_hand"] > one["limit"]
        times = [f"{one['ours']:.2f} s", f"{one['by_hand']:.2f} s"]
        return [*times, f"**{ratio:#.3g}**" if is_over else f"{ratio:#.3g}", f"{one['limit']:#.3g}"]
    value = f"{one['value']:.{one['digits']}f} {one['unit']}"
    return [f"**{value}**" if one["value"] > one["limit"] else value, "", "", f"{one['limit']:g} {one['unit']}"]


def nexmark_table(benchmarks: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table of Nexmark: all columns for one run, and the CPU time of each for several.

    >>> costs = [{"query": "0", "title": "Pass through", "cpu": 2.0, "results": 1000}]
    >>> run = {"events": 1_000_000, "found": costs}
    >>> print(*nexmark_table({"local": run}), sep="\\n")
    | | query | results | events/s and core | CPU s per million |
    | --- | --- | --- | --- | --- |
    | 0 | Pass through | 1,000 | 500,000 | 2.00 |
    >>> print(*nexmark_table({"local": run, "local, columns": run}), sep="\\n")
    | | query | local | local, columns |
    | --- | --- | --- | --- |
    | 0 | Pass through | 2.00 | 2.00 |
    """
    costs = {
        name: {one["query"]: one["cpu"] / run["events"] * 1e6 for one in run["found"]}
        for name, run in benchmarks.items()
    }
    (name, run), *others = benchmarks.items()
    if others:
        titles: dict[str, dict[str, None]] = {}
        for each in benchmarks.values():
            for one in each["found"]:
                titles.setdefault(one["query"], {})[one["title"]] = None
        queries = {query: ", or ".join(named) for query, named in titles.items()}
        shared = [query for query in queries if all(query in cost for cost in costs.values())]
        return _table(
            ["", "query", *benchmarks],
            [[query, queries[query], *(f"{cost[query]:.2f}" for cost in costs.values())] for query in shared],
        )
    rows = [
        [
            one["query"],
            one["title"],
            f"{one['results']:,}",
            f"{run['events'] / one['cpu']:,.0f}",
            f"{costs[name][one['query']]:.2f}",
        ]
        for one in run["found"]
    ]
    return _table(["", "query", "results", "events/s and core", "CPU s per million"], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [re.sub(r"^\|  \|", "| |", f"| {' | '.join(cells)} |") for cells in lines]


if __name__ == "__main__":
    for page in DOCS.glob("*.md"):
        before = page.read_text()
        if before != (after := with_tables(before)):
            page.write_text(after)
            print(page.relative_to(DOCS.parent))
