"""Hook of mkdocs for the site (`make docs`): pages and links outside docs/.

The documentation links READMEs beside the code, which mkdocs does not see: they become pages of the
site. Every other file outside docs/ is shown as its path, because no public address has it yet.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS = "docs/"
PAGES = {
    "README.md": "about.md",
    "deploy/README.md": "deploy/README.md",
    "deploy/helm/sunk-sync/README.md": "deploy/helm/sunk-sync/README.md",
    "tests/e2e/README.md": "tests/e2e/README.md",
    "tests/real/README.md": "tests/real/README.md",
}
"""Pages outside docs/, by their path: their place in the site."""
PLACES = {uri: place for place, uri in PAGES.items()}

FENCE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<shown>!?\[(?P<text>[^\]]*)\])\((?P<target>[^)\s]+)\)")
REQUEST = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=\"?(?:https?:)?//[^>]*>"
    r"|(?:@import|url\()[ \"']*(?:https?:)?//[^;)]*"
)
"""A page that asks another server as soon as somebody opens it. Links to click on are fine."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the files of a folder, such as `decisions/`, into the navigation."""
    assert config.nav is not None
    for section in config.nav:
        for entries in section.values():
            if isinstance(entries, list):
                for entry in entries:
                    entry.update({title: _listed(of) for title, of in entry.items()})
    return config


def _listed(page: str) -> str | list[str]:
    if not page.endswith("/"):
        return page
    found = (ROOT / DOCS / page).glob("*.md")
    # README.md is the page of the section: it comes first.
    return [page + one.name for one in sorted(found, key=lambda one: (one.stem != "README", one))]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/."""
    for place, uri in PAGES.items():
        content = (ROOT / place).read_text(encoding="utf-8")
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Point the links of a page to their places in the site."""
    return linked(markdown, place_of(page.file.src_uri))


def place_of(uri: str) -> str:
    """Return the path in the repository of a page of the site."""
    return PLACES.get(uri, DOCS + uri)


def linked(markdown: str, place: str) -> str:
    """Rewrite the links of the page at this path, except in code blocks."""
    parts = FENCE.split(markdown)
    parts[::2] = [LINK.sub(lambda found: _link(found, place), part) for part in parts[::2]]
    return "".join(parts)


def _link(found: re.Match[str], place: str) -> str:
    path, hash_mark, anchor = found["target"].partition("#")
    if not path or ":" in path:
        return found[0]
    target = posixpath.normpath(posixpath.join(posixpath.dirname(place), path))
    uri = target.removeprefix(DOCS) if target.startswith(DOCS) else PAGES.get(target)
    if uri is None:
        return _as_path(found["text"], target)
    here = posixpath.dirname(PAGES.get(place, place.removeprefix(DOCS)))
    return f"{found['shown']}({posixpath.relpath(uri, here or '.')}{hash_mark}{anchor})"


def _as_path(text: str, target: str) -> str:
    return f"`{target}`" if target.endswith(text.strip("`./")) else f"{text} (`{target}`)"


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site whose pages ask other servers."""
    built = Path(config.site_dir)
    found = [f"{path.relative_to(built)}: {one}" for path in _pages(built) for one in asked(path)]
    if found:
        raise PluginError("pages of the site ask other servers:\n" + "\n".join(found))


def _pages(built: Path) -> Iterator[Path]:
    for ending in ("html", "css"):
        yield from built.rglob(f"*.{ending}")


def asked(page: Path) -> list[str]:
    """Return the parts of a built page that ask another server."""
    return REQUEST.findall(page.read_text(encoding="utf-8"))
