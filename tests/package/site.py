"""The site of the documentation: built by `make docs`' command, with its links and its search."""

from __future__ import annotations

import html.parser
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from urllib.parse import unquote, urldefrag

import attrs
from package.unpack_wheel import ROOT


class _Page(html.parser.HTMLParser):
    """The targets of a page's links, and the places that links can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name == "id" and value:
                self.anchors.add(value)


@attrs.frozen(slots=False)
class Site:
    """A built site: a directory of static files."""

    directory: pathlib.Path

    @cached_property
    def pages(self) -> dict[pathlib.Path, _Page]:
        """Every HTML file."""
        return {path: _Page(path.read_text()) for path in sorted(self.directory.rglob("*.html"))}

    def broken_links(self) -> list[str]:
        """Return the links within the site that lead nowhere, each after its page."""
        broken = []
        for path, page in self.pages.items():
            for link in sorted(page.links):
                target, anchor = urldefrag(link)
                if "://" in link or link.startswith(("mailto:", "data:")):
                    continue
                file = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
                found = self.pages.get(file)
                if not file.exists() or (found is not None and unquote(anchor) not in found.anchors):
                    broken.append(f"{path.relative_to(self.directory)}: {link}")
        return broken

    @contextmanager
    def searching(self) -> Iterator[Callable[[str], list[str]]]:
        """Give a function from a query to the names of the pages that the site's own search finds, best first."""
        from py_mini_racer import MiniRacer

        static = self.directory / "_static"
        scripts = ["base-stemmer.js", "english-stemmer.js", "language_data.js", "searchtools.js"]
        found = [static / script for script in scripts if (static / script).exists()]
        # Closed at once: an engine that Python's end finds open waits for a thread that is gone.
        with MiniRacer() as engine:
            engine.eval(BROWSER)
            for script in [*found, self.directory / "searchindex.js"]:
                engine.eval(script.read_text() + "\n;")
            engine.eval("var search = query => Search._performSearch(...Search._parseQuery(query));")
            # The best hit is the last one.
            yield lambda query: list(dict.fromkeys(hit[0] for hit in reversed(list(engine.call("search", query)))))


# What the scripts of the search ask of a browser before they search.
BROWSER = """
var window = globalThis;
var SPHINX_HIGHLIGHT_ENABLED = false;
var DOCUMENTATION_OPTIONS = {};
var _ = text => text;
var _ready = () => {};
var document = {
    readyState: "loading", addEventListener: () => {}, getElementById: () => null,
    documentElement: {dataset: {content_root: ""}},
};
"""


def build_site(directory: pathlib.Path) -> Site:
    """Build the site, with warnings as errors."""
    options = ["--fresh-env", "--fail-on-warning", "--keep-going", "--quiet", "--builder", "html"]
    command = [sys.executable, "-m", "sphinx", *options, "--doctree-dir", f"{directory}.trees"]
    built = subprocess.run(
        [*command, str(ROOT / "docs"), str(directory)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert built.returncode == 0, built.stderr
    return Site(directory.resolve())
