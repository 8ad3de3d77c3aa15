"""The pages of the documentation, with their code blocks, code spans and links."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tools.site import PAGES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A code block."""

    place: str
    """Page and line."""
    language: str
    text: str


@cache
def pages() -> tuple[Path, ...]:
    """Return every page of the site."""
    return (*sorted(DOCS.rglob("*.md")), *(ROOT / page for page in sorted(PAGES)))


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def blocks() -> tuple[Block, ...]:
    """Return each code block, without its indent."""
    return tuple(_blocks())


def _blocks() -> Iterator[Block]:
    for page in pages():
        text = text_of(page)
        for found in _FENCED.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            indent, language, inside = found.groups()
            inside = re.sub(f"^{indent}", "", inside, flags=re.MULTILINE)
            yield Block(f"{named(page)}:{line}", language, inside)


@cache
def prose(page: Path) -> str:
    """Return the text of a page without its code blocks."""
    return _FENCED.sub("", text_of(page))


@cache
def spans() -> tuple[tuple[str, str], ...]:
    """Return each code span in the text, after its page."""
    return tuple(_spans())


def _spans() -> Iterator[tuple[str, str]]:
    for page in pages():
        for found in _SPAN.finditer(prose(page).replace("\n", " ")):
            yield named(page), found[1]


def links() -> Iterator[tuple[Path, str]]:
    """Yield each link to a file of the repository, after its page."""
    for page in pages():
        for found in _LINK.finditer(prose(page)):
            if ":" not in found[1]:
                yield page, found[1]


def words(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield each match of the pattern anywhere in the documentation, after its page."""
    for page in pages():
        for found in re.finditer(pattern, text_of(page)):
            yield named(page), found[0]
