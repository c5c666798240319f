"""Hooks of MkDocs: draw equations as MathML, name the search, copy each page as Markdown, build the other languages."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.commands.build import build
from mkdocs.config import load_config

EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Returns a page's HTML with equations that a browser draws without scripts."""
    return EQUATION.sub(lambda found: _drawn(found[2], found[1] == "div"), content)


def on_post_page(output: str, **_: Any) -> str:
    """Returns a page whose search has a name for screen readers."""
    dialog = 'data-md-component="search" role="dialog"'
    return output.replace(dialog, f'{dialog} aria-label="Search"')


def _drawn(equation: str, block: bool) -> str:
    return convert(html.unescape(equation).strip(), display="block" if block else "inline")


def on_post_build(config: Any, **_: Any) -> None:
    """Copies each page's Markdown to where its HTML is, and builds the other languages into folders of the site."""
    site, sources = Path(config["site_dir"]), Path(config["docs_dir"])
    for path in sources.rglob("*.md"):
        place = path.relative_to(sources)
        text = re.sub(r"\A---\n.*?\n---\n+", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        text = text.replace("/README.md", "/index.md").replace("](README.md", "](index.md")
        (site / place.with_name("index.md" if path.name == "README.md" else path.name)).write_text(
            text, encoding="utf-8"
        )
    if sources.name != "en":
        return
    for other in sorted(Path(config["config_file_path"]).parent.glob("??.yml")):
        url = f"{config['site_url']}{other.stem}/" if config["site_url"] else ""
        build(load_config(str(other), site_dir=str(site / other.stem), site_url=url))
