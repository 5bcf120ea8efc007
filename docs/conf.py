"""Configuration of the site that `make docs` builds from these pages."""

from __future__ import annotations

import gc
import re
import sys
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import penstock

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Trees of documents are kept to the end of the build, which takes 600 MB: hardly anything is garbage.
gc.disable()

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

from tables import with_tables  # noqa: E402

from penstock.sdk.extras import extras_of, installed_by  # noqa: E402

project = "Penstock"
author = "The authors of Penstock"
version = release = penstock.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
napoleon_numpy_docstring = False
napoleon_use_ivar = True
source_suffix = {".md": "markdown"}
# The link checker (`make links`) asks other hosts; nothing else does.
linkcheck_timeout = 20
linkcheck_retries = 2
# Servers of examples.
linkcheck_ignore = [r"https?://(localhost|127\.0\.0\.1)\b"]
nitpicky = False
# Docstrings put code in single backquotes.
default_role = "literal"
# Types in signatures are found by their last name, which several modules of Beam's may have.
suppress_warnings = ["ref.python"]

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# A method that says nothing new is described where it is defined.
autodoc_inherit_docstrings = False
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
# Signatures of several arguments get a line each.
maximum_signature_line_length = 90
add_module_names = False

html_theme = "furo"
html_title = f"Penstock {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = ""
html_theme_options = {"navigation_with_keys": True}

# A list of links to pages, below a heading.
LISTED = re.compile(r"^## (?P<caption>.*)\n\n(?P<text>(?:(?!- \[|## ).*\n)*)(?P<links>(?:- \[.*\]\(.*\.md\)\n)+)", re.M)


# Names of a module, whose docstrings are the text.
NAMES = re.compile(r"^```\{names\} (?P<module>\S+)\n(?P<names>.*?)```$", re.M | re.S)


# A question, the page that answers it, and other words for it.
QUESTION = re.compile(
    r"^\| (?P<text>.*\?) \| \[.*\]\((?P<page>[\w/]+)\.md#?(?P<place>[\w-]*)\) \| (?P<words>.*) \|$", re.M
)


def expand(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make the lists of pages in an index the contents of the navigation, and lists of names their documentation.

    Tables of results are made of their files.  The questions that a page answers are in the index, where the search
    looks first, and their words are its keywords.
    """
    source[0] = with_tables(source[0], (DOCS / docname).parent)
    if docname == "index" or docname.endswith("/index"):
        source[0] = LISTED.sub(_with_toctree, source[0])
    questions = [found for found in QUESTION.finditer((DOCS / "questions.md").read_text()) if found["page"] == docname]
    if questions:
        source[0] = _with_questions(source[0], questions)
    if docname == "questions":
        # It has the words of all answers.
        source[0] = f"---\nnosearch: true\n---\n\n{source[0]}"
    source[0] = NAMES.sub(_documented, source[0])
    # Folders of the checkout have no page.
    source[0] = re.sub(
        r"\[([^\]]+)\]\(((?:\.\./)+[\w/]+)\)", lambda m: m[1] if (DOCS / m[2]).is_dir() else m[0], source[0]
    )


def _with_toctree(found: re.Match[str]) -> str:
    pages = re.findall(r"\]\((.*)\.md\)", found["links"])
    contents = "\n".join(["```{toctree}", ":hidden:", f":caption: {found['caption']}", "", *pages, "```"])
    return f"{found[0]}\n{contents}\n"


def _with_questions(text: str, questions: list[re.Match[str]]) -> str:
    entries: dict[str, list[str]] = {}
    for found in questions:
        entries.setdefault(found["place"], []).extend([found["text"], *found["words"].split(", ")])
    lines: list[str] = []
    is_code = False
    for line in text.splitlines():
        lines.append(line)
        is_code ^= line.startswith("```")
        if is_code or not line.startswith("#"):
            continue
        # As in the links: lower-case, with hyphens, and the title stands for the page.
        title = line.lstrip("#").strip()
        place = "" if line.startswith("# ") else re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        for entry in entries.pop(place, []):
            lines += ["", f"```{{index}} !single: {entry}", "```"]
    if entries:
        raise ValueError(f"docs/questions.md: these places are missing: {sorted(entries)}")
    phrases = " ".join(f"{found['text']} {found['words']}" for found in questions)
    words = sorted(set(re.findall(r"[\w-]+", phrases.lower())))
    matter = ["---", "myst:", "  html_meta:", f'    "keywords": "{", ".join(words)}"', "---", ""]
    return "\n".join([*matter, *lines, ""])


def _documented(found: re.Match[str]) -> str:
    lines = ["```{eval-rst}"]
    for name in found["names"].split():
        kind = "class" if isinstance(getattr(import_module(found["module"]), name), type) else "function"
        lines += [f".. auto{kind}:: {found['module']}.{name}", *(["   :members:"] if kind == "class" else []), ""]
        for extra in extras_of(f"{found['module']}.{name}".removeprefix("penstock.")):
            lines += [f"   It needs the extra ``{extra}``: ``{installed_by(extra)}``.", ""]
    return "\n".join([*lines, "```"])


# What runners and other transforms call, and users don't.
INTERNAL = {
    "add_to", "batched_for", "default_label", "dofn", "expand", "get_type_hints", "infer_output_type", "operation",
    "partition_for", "reified",
}  # fmt: skip


def is_left_out(app: Sphinx, what: str, name: str, found: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the methods of transforms that only the library calls, and classes that are attributes."""
    return True if name in INTERNAL and what == "class" else None


# A line of a list of names: `DISCARDING: a pane has the elements since the last pane.`
ITEM = re.compile(r"[A-Za-z_`][\w`., ]*: \S")


def as_restructured_text(app: Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Make a docstring reStructuredText: escape what isn't markup, and mark its lists."""
    in_example = False
    section = ""
    for number, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or (in_example and line.strip() != "")
        if in_example:
            continue
        if re.fullmatch(r"(Args|Attributes|Returns|Raises|Yields):", line):
            section = line
        elif line and not line.startswith(" "):
            section = ""
        if not section and (ITEM.match(line) and (_goes_on(lines, number) or _is_item(lines, number))):
            line = f"* {line}"
        elif not section and line.startswith("  "):
            line = f"  {line.strip()}" if number and lines[number - 1].startswith(("* ", "  ")) else line
        lines[number] = _escaped(line)
    # A list needs an empty line before it.
    for number in range(len(lines) - 1, 0, -1):
        if lines[number].startswith("* ") and lines[number - 1] and not lines[number - 1].startswith(("* ", "  ")):
            lines.insert(number, "")


def _goes_on(lines: list[str], number: int) -> bool:
    return number + 1 < len(lines) and lines[number + 1].startswith("  ") and lines[number + 1].strip() != ""


def _is_item(lines: list[str], number: int) -> bool:
    before = lines[number - 1] if number else ""
    after = lines[number + 1] if number + 1 < len(lines) else ""
    return before.startswith("* ") or bool(ITEM.match(after))


def _escaped(line: str) -> str:
    if line.startswith("* "):
        return "* " + _escaped(line[2:])
    parts = re.split(r"(`+[^`]*`+)", line)
    parts[::2] = [re.sub(r"(\*+|\||(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    for number in range(1, len(parts), 2):
        # The plural of code: `Row`s.
        if parts[number + 1][:1].isalnum():
            parts[number] += "\\ "
    return "".join(parts)


def with_short_contents(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Let the navigation of a page be made of titles alone.

    The theme asks for titles only.  Sphinx copies the contents of all pages first, down to each method, for each page.
    """
    if (navigation := context.get("toctree")) is None:
        return

    def of_titles(**options: Any) -> str:
        whole = app.env.tocs
        app.env.tocs = _titles(app) if options.get("titles_only") else whole
        try:
            return str(navigation(**options))
        finally:
            app.env.tocs = whole

    context["toctree"] = of_titles


@lru_cache
def _titles(app: Sphinx) -> dict[str, Any]:
    """Return the contents of each page that has no other pages below it, without what is below its title."""
    titles = dict(app.env.tocs)
    for page in titles.keys() - app.env.toctree_includes.keys():
        titles[page] = titles[page].deepcopy()
        for item in titles[page].children:
            item.children[1:] = []
    return titles


def setup(app: Sphinx) -> None:
    """Connect the steps of the build that are this site's own."""
    app.connect("source-read", expand)
    app.connect("autodoc-skip-member", is_left_out)
    # Before the theme, which makes the navigation.
    app.connect("html-page-context", with_short_contents, priority=400)
    # Before napoleon, which makes fields of `Args:`.
    app.connect("autodoc-process-docstring", as_restructured_text, priority=400)
