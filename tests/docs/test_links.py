"""Each file that a page links exists. `make docs` checks the anchors."""

from tests.docs.pages import DOCS, ROOT, links, named, spans, words
from tools import site

FOLDERS = ("deploy/", "docs/", "sunk_sync/", "tests/", "tools/")


def test_each_linked_file_exists() -> None:
    found = list(links())
    wrong = [
        f"{named(page)}: {target}"
        for page, target in found
        if not (page.parent / target.partition("#")[0]).exists()
    ]
    assert not wrong
    assert len(found) > 200, "the pattern finds links"
    print(f"{len(found)} links")


def test_each_path_in_code_type_exists() -> None:
    found = {
        (page, span.partition("::")[0])
        for page, span in spans()
        if span.startswith(FOLDERS) and " " not in span and "…" not in span
    }
    wrong = [one for one in found if not any(ROOT.glob(one[1].rstrip("/")))]
    assert not wrong
    print(f"{len(found)} paths")


def test_each_picture_of_the_documentation_is_shown() -> None:
    shown = {target.rpartition("/")[2] for _, target in words(r"[\w./-]+\.svg")}
    assert {one.name for one in DOCS.glob("*.svg")} <= shown


def test_a_link_out_of_the_documentation_leads_to_a_page_of_the_site_or_shows_the_path() -> None:
    def linked(text: str) -> str:
        return site.linked(text, "docs/howto/a.md")

    assert linked("[x](../b.md#c)") == "[x](../b.md#c)"
    assert linked("[x](../../deploy/README.md#d)") == "[x](../deploy/README.md#d)"
    assert linked("[the script](../../deploy/slurm/e.sh)") == "the script (`deploy/slurm/e.sh`)"
    assert linked("[deploy/e.sh](../../deploy/e.sh)") == "`deploy/e.sh`"
    assert linked("[x](https://a.example)") == "[x](https://a.example)"
    assert linked("```\n[x](../../tests/f.py)\n```\n") == "```\n[x](../../tests/f.py)\n```\n"


def test_a_link_of_a_page_beside_the_code_leads_into_the_site() -> None:
    assert site.linked("[x](docs/gate.md)", "README.md") == "[x](gate.md)"
    assert site.linked("[x](../docs/gate.md)", "deploy/README.md") == "[x](../gate.md)"
    assert site.linked("![x](docs/a.svg)", "README.md") == "![x](a.svg)"


def test_a_page_that_asks_another_server_is_found() -> None:
    assert site.REQUEST.search('<script src="https://a.example/b.js"></script>')
    assert site.REQUEST.search('<link rel="stylesheet" href="//a.example/b.css">')
    assert site.REQUEST.search("@import url(https://a.example/font.css)")
    assert not site.REQUEST.search('<a href="https://a.example">a</a><img src="b.svg">')
