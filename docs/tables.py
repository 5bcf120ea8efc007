"""`python docs/tables.py` writes the tables in these pages that are made of result files and of the code.

A page has a comment above each table, and one below it:

    <!-- table: performance.json all_cores -->
    <!-- end of table -->

The path of the file is relative to the page, and the rest names the benchmarks of the table, separated by semicolons.
`table` shows comparisons, with their limits; `figures` shows rows of figures.  The files are what `python benchmarks
--results FILE` writes; experiments.json has the figures of experiments that no benchmark repeats.  The site is built
with the tables of the files (conf.py), and a test compares them with those of the pages.

The comment of a table that the code has names the function that returns its lines:

    <!-- code: penstock.runners.local.combinations combinations_table -->
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent

TABLE = re.compile(
    r"(?<=<!-- )(?P<kind>table|figures|code): (?P<file>\S+) (?P<names>.+?) -->\n.*?(?=<!-- end of table -->)", re.DOTALL
)


def with_tables(text: str, directory: Path = DOCS) -> str:
    """Return a page in a directory with the tables of its result files, and of the code."""

    def table(found: re.Match[str]) -> str:
        if found["kind"] == "code":
            lines = "\n".join(getattr(import_module(found["file"]), found["names"])())
            return f"code: {found['file']} {found['names']} -->\n{lines}\n"
        benchmarks = json.loads((directory / found["file"]).read_text())["benchmarks"]
        names = found["names"].split("; ")
        made = nexmark_table if "query" in benchmarks[names[0]]["found"][0] else comparison_table
        made = figures_table if found["kind"] == "figures" else made
        lines = "\n".join(made({name: benchmarks[name] for name in names}))
        return f"{found['kind']}: {found['file']} {found['names']} -->\n{lines}\n"

    return TABLE.sub(table, text)


def comparison_table(benchmarks: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table of comparisons, with when each was measured.

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
        for one in benchmark["found"]:
            if one["kind"] != "figures":
                # A result that was measured at another time has its own circumstances.
                cells = [f"`{name}`", one["name"], *_cells(one), _when({**benchmark, **one})]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cells(one: Mapping[str, Any]) -> list[str]:
    if one["kind"] == "ratio":
        times = [f"{one[side]:.2f} s" if side in one else "" for side in ("ours", "by_hand")]
        # Of older results the seconds weren't kept, or only rounded ones.
        ratio = one["ratio"] if "ratio" in one else one["ours"] / one["by_hand"]
        shown = f"{ratio:#.{2 if 'ratio' in one and ratio < 1 else 3}g}"
        return [*times, f"**{shown}**" if ratio > one["limit"] else shown, f"{one['limit']:#.3g}"]
    value = f"{one['value']:.{one['digits']}f} {one['unit']}"
    return [f"**{value}**" if one["value"] > one["limit"] else value, "", "", f"{one['limit']:g} {one['unit']}"]


def _when(about: Mapping[str, Any]) -> str:
    load = f", load {about['load']:g}" if "load" in about else ""
    return f"{about['date']}{load}{', ' + about['note'] if 'note' in about else ''}"


def figures_table(benchmarks: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table of figures, and of a sentence below it that says when they were measured.

    >>> memory = {"memory": {"value": 133.6, "unit": "MB"}}
    >>> row = {"kind": "figures", "name": "3", "subject": "minute", "values": memory}
    >>> print(*figures_table({"soak": {"date": "2026-11-26", "found": [row]}}), sep="\\n")
    | minute | memory |
    | --- | --- |
    | 3 | 134 MB |
    <BLANKLINE>
    `soak`: 2026-11-26.
    """
    rows = [one for benchmark in benchmarks.values() for one in benchmark["found"] if one["kind"] == "figures"]
    columns = list(dict.fromkeys(column for row in rows for column in row["values"]))
    table = _table(
        [rows[0]["subject"], *columns],
        [
            [row["name"], *(_figure(row["values"][column]) if column in row["values"] else "" for column in columns)]
            for row in rows
        ],
    )
    return [*table, "", f"{'; '.join(f'`{name}`: {_when(own)}' for name, own in benchmarks.items())}."]


def _figure(figure: Mapping[str, Any]) -> str:
    shown = f"{figure['value']:,.{figure.get('digits', 0)}f} {figure.get('unit', '')}".rstrip()
    return f"**{shown}**" if figure["value"] > figure.get("limit", figure["value"]) else shown


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
    return [re.sub(r"(?<=\|)  (?=\|)", " ", f"| {' | '.join(cells)} |") for cells in lines]


if __name__ == "__main__":
    for page in [*sorted(DOCS.rglob("*.md")), DOCS.parent / "README.md"]:
        before = page.read_text()
        if before != (after := with_tables(before, page.parent)):
            page.write_text(after)
            print(page.relative_to(DOCS.parent))
