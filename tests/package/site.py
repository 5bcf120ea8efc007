"""The site of the documentation: built by `make docs`' command, with its links and its search."""

from __future__ import annotations

import html.parser
import pathlib
import subprocess
import sys
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

    @cached_property
    def _engine(self) -> object:
        """An interpreter of JavaScript with the site's own search."""
        from py_mini_racer import MiniRacer

        engine = MiniRacer()
        engine.eval(
            """
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
        )
        static = self.directory / "_static"
        stemmers = [static / "base-stemmer.js", static / "english-stemmer.js"]
        for script in [*stemmers, static / "language_data.js", static / "searchtools.js"]:
            if script.exists():
                engine.eval(script.read_text() + "\n;")
        engine.eval((self.directory / "searchindex.js").read_text())
        engine.eval(
            """
            var search = query => Search._performSearch(...Search._parseQuery(query)).reverse().map(hit => hit[0]);
            """
        )
        return engine

    def search(self, query: str) -> list[str]:
        """Return the names of the pages that the site's search finds, best first, each once."""
        found = self._engine.call("search", query)  # type: ignore[attr-defined]
        return list(dict.fromkeys(found))


def build_site(directory: pathlib.Path) -> Site:
    """Build the site, with warnings as errors."""
    options = ["--fresh-env", "--fail-on-warning", "--keep-going", "--quiet", "--builder", "html"]
    command = [sys.executable, "-m", "sphinx", *options, "--doctree-dir", f"{directory}.trees"]
    built = subprocess.run(
        [*command, str(ROOT / "docs"), str(directory)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert built.returncode == 0, built.stderr
    return Site(directory.resolve())
