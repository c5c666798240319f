"""The site of the documentation: every page is in its menu, and every link leads to a page of it.

`tests/page/test_docs_in_browser.py` builds it and opens its pages in a browser.
"""

import importlib.util
import re
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from source import ROOT, documents


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prepare", ROOT / "docs" / "site" / "prepare.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_menu_and_every_link_leads_to_a_page(
    site: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(site, "BUILD", tmp_path)
    site.prepare()
    menu = yaml.safe_load((tmp_path / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    listed = list(site.listed(menu))
    assert len(listed) == len(set(listed))
    english = tmp_path / "docs" / "en"
    assert {name for name in listed if not (english / name).is_file()} == set()
    told = re.findall(r"^- \[.+?\]\((\S+\.md)\): \S", (english / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert [name.replace("index.md", "README.md") for name in told] == listed


def test_links_of_the_repository_become_links_of_the_site(site: ModuleType, tmp_path: Path):
    found = {"README.md": "project/readme.md", "docs/a/one.md": "a/one.md", "docs/b/README.md": "b/README.md"}
    links = site.Links(found, found, tmp_path)
    text = "[x](../b/README.md#y) [f](../b) [m](../../README.md) [c](../../configs/ppo/3DBall.yaml) [w](https://a.b)"
    assert links.moved(f"{text}\n\n```\n[x](../b/README.md)\n```\n", "docs/a/one.md", "a/one.md") == (
        "[x](../b/README.md#y) [f](../b/README.md) [m](../project/readme.md) "
        "[c](../source/configs/ppo/3DBall.yaml.md) [w](https://a.b)\n\n```\n[x](../b/README.md)\n```\n"
    )
    assert links.sources == {"configs/ppo/3DBall.yaml"}
    with pytest.raises(site.SiteError, match=r"docs/a/one.md links to nothing.md, which is not there"):
        links.moved("[x](nothing.md)", "docs/a/one.md", "a/one.md")


def test_a_translation_links_to_english_pages_that_it_lacks(site: ModuleType, tmp_path: Path):
    english = {
        "docs/tutorials/notebook.md": "tutorials/notebook.md",
        "docs/guides/machines/gpu.md": "guides/machines/gpu.md",
    }
    links = site.Links({"docs/zh/README.md": "README.md"}, english, tmp_path / "zh")
    assert links.moved("[x](../../tutorials/notebook.md)", "docs/zh/tutorials/x.md", "tutorials/x.md") == (
        "[x](../../tutorials/notebook.html)"
    )
    assert links.moved("[x](../guides/machines/gpu.md#memory)", "docs/zh/README.md", "README.md") == (
        "[x](../guides/machines/gpu.html#memory)"
    )


def test_a_page_that_no_menu_leads_to_is_an_error(site: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(site, "BUILD", tmp_path)
    everything = site.pages()
    monkeypatch.setattr(site, "pages", lambda: {**everything, "SECURITY.md": "project/new.md"})
    with pytest.raises(site.SiteError, match=r"no menu leads to: project/new\.md"):
        site.prepare()


def test_blocks_of_a_page_have_blank_lines_around_them():
    """Python-Markdown reads a list or a table only after a blank line; the forge does without."""
    found = [
        f"{path.relative_to(ROOT)}: {before!r} / {line!r}"
        for path in documents()
        for before, line in joined(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def joined(text: str) -> list[tuple[str, str]]:
    """Returns each pair of lines of which the second begins a list, a table or a heading right below the first."""
    lines = re.sub(r"^ *(`{3,}).*?^ *\1 *$", "", text, flags=re.MULTILINE | re.DOTALL).split("\n")
    block = re.compile(r"(\||#+ |[-*] |\d+\. )")
    return [
        (before, line)
        for before, line in pairwise(lines)
        if block.match(line) and before.strip() and not block.match(before) and not before.startswith("  ")
    ]


def test_a_list_below_a_sentence_is_found():
    assert joined("A sentence:\n- one\n- two\n\n  more\n- three\n") == [("A sentence:", "- one")]
