"""Gathers the sources of the documentation site in `build/site`, from which `make docs` builds it.

Pages are read on the forge as they stand in the repository, so they link to one another and to files by relative
paths. The site has pages only: what a page links to and is none, such as a settings file, becomes a page that shows it.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "site"
NAV = Path(__file__).parent / "nav.yaml"
LANGUAGES = ("en", "zh")
OUTSIDE = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
    "README.md": "project/readme.md",
    "examples/README.md": "tutorials/examples.md",
    "configs/README.md": "project/configs.md",
    "benchmarks/peers/README.md": "project/peers.md",
}
"""Pages of the repository that do not lie in `docs`, and where the site has them."""
BOOST = {
    "guides/training/it-does-not-learn.md": 4.0,
    "faq.md": 2.0,
    "install.md": 2.0,
    "tutorials": 2.0,
    "guides": 2.0,
    "reference/settings": 2.0,
    "decisions": 0.1,
    "project": 0.1,
    "reference/errors": 1.2,
    "gallery": 0.5,
}
"""How much more, or less, the search thinks of a page, or of the pages of a folder."""
SEARCH = {"pipeline": ["trimmer"], "separator": r"""[\s\-_,:;!?=\[\](){}<>|"'`/+*]+|\.(?!\d)"""}
"""How English words are found: also `not`, which is left out otherwise, and each word of `learning_rate`, `a[0].b`."""
FENCE = re.compile(r"^ *(`{3,}).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
COPIED = {".png", ".webp", ".gif", ".svg", ".mp4", ".ipynb"}
"""Kinds of files that the site has as they are."""
LANGUAGE_OF = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json"}


class SiteError(Exception):
    """A page that links to what is not there, or that no menu leads to."""


def pages() -> dict[str, str]:
    """Returns the place of each page on the site by its path in the repository."""
    found = dict(OUTSIDE)
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(tuple(f"docs/{language}/" for language in LANGUAGES[1:])):
            found[name] = name.removeprefix("docs/")
    return found


def translated(language: str) -> dict[str, str]:
    """Returns the place of each page of another language by its path in the repository."""
    folder = ROOT / "docs" / language
    return {path.relative_to(ROOT).as_posix(): path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}


def prepare(versions: bool = False) -> None:
    """Writes `build/site`: pages by language, pictures, files that are linked to, and the menu.

    With `versions` the pages have a menu of the versions that mike has published beside this one.
    """
    shutil.rmtree(BUILD, ignore_errors=True)
    english = pages()
    sources = write_pages("en", english, english)
    for name in sorted(sources):
        write(BUILD / "docs" / "en" / f"{source_page(name)}", shown(name))
    for language in LANGUAGES[1:]:
        write_pages(language, translated(language), english)
    menus = yaml.safe_load(NAV.read_text(encoding="utf-8"))
    tree = list(expanded(menus["en"], english))
    if missing := sorted(set(english.values()) - {*listed(tree), *menus["unlisted"]}):
        raise SiteError(f"no menu leads to: {', '.join(missing)}; add them to {NAV.relative_to(ROOT)}")
    if absent := sorted({*listed(tree)} - set(english.values())):
        raise SiteError(f"{NAV.relative_to(ROOT)} lists what is not there: {', '.join(absent)}")
    write(BUILD / "docs" / "en" / "llms.txt", contents(tree))
    write(BUILD / "mkdocs.yml", configured("en", tree, versions))
    for language in LANGUAGES[1:]:
        write(BUILD / f"{language}.yml", configured(language, menus[language], versions))


def write_pages(language: str, found: dict[str, str], english: dict[str, str]) -> set[str]:
    """Writes the pages of a language with their pictures, and returns the files that they link to."""
    folder = BUILD / "docs" / language
    links = Links(found, english, folder)
    for name, place in found.items():
        text = links.moved((ROOT / name).read_text(encoding="utf-8"), name, place)
        write(folder / place, f"{ranked(place)}{text}")
    return links.sources


def ranked(place: str) -> str:
    """Returns what a page begins with so that the search ranks it, '' for most."""
    boost = next((boost for name, boost in BOOST.items() if place == name or place.startswith(f"{name}/")), None)
    return "" if boost is None else f"---\nsearch:\n  boost: {boost}\n---\n\n"


class Links:
    """Turns links of the repository into those of the site."""

    def __init__(self, found: dict[str, str], english: dict[str, str], folder: Path) -> None:
        self.found, self.english, self.folder = found, english, folder
        self.sources = set[str]()

    def moved(self, text: str, name: str, place: str) -> str:
        """Returns a page's text with its links as the site needs them; text in fences stays."""
        parts, end = list[str](), 0
        for fence in FENCE.finditer(text):
            parts += [self._moved(text[end : fence.start()], name, place), fence[0]]
            end = fence.end()
        return "".join([*parts, self._moved(text[end:], name, place)])

    def _moved(self, text: str, name: str, place: str) -> str:
        return LINK.sub(lambda found: f"{found[1]}{self._target(found[2], name, place)}{found[3]}", text)

    def _target(self, target: str, name: str, place: str) -> str:
        if re.match(r"[a-z]+:|#", target):
            return target
        file, mark, anchor = target.partition("#")
        there = posixpath.normpath(posixpath.join(posixpath.dirname(name), file))
        there = next((one for one in (there, f"{there}/README.md") if one in self.found or one in self.english), there)
        if there in self.found:
            return f"{relative(self.found[there], place)}{mark}{anchor}"
        if not (ROOT / there).exists():
            raise SiteError(f"{name} links to {target}, which is not there")
        if (ROOT / there).suffix in COPIED:
            copied = self.folder / (there.removeprefix("docs/"))
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / there, copied)
            return relative(copied.relative_to(self.folder).as_posix(), place)
        if there in self.english:  # not translated: the English page, one folder up from the language's own
            page = re.sub(r"(README)?\.md$", lambda end: "index.html" if end[1] else ".html", self.english[there])
            return f"{relative(page, f'{self.folder.name}/{place}')}{mark}{anchor}"
        self.sources.add(there)
        if (ROOT / there).is_dir():
            self.sources |= {path.relative_to(ROOT).as_posix() for path in (ROOT / there).iterdir() if path.is_file()}
        return relative(source_page(there), place)


def relative(there: str, place: str) -> str:
    """Returns the path to a page of the site from another one."""
    return posixpath.relpath(there, posixpath.dirname(place) or ".")


def source_page(name: str) -> str:
    """Returns the place of the page that shows a file of the repository."""
    return f"source/{name}.md"


def shown(name: str) -> str:
    """Returns a page that shows a file, or lists those of a folder."""
    path = ROOT / name
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {path.name}\n\n`{name}`\n\n"
    if path.is_dir():
        files = sorted(one.name for one in path.iterdir() if one.is_file())
        return head + "\n".join(f"- [{one}]({path.name}/{one}.md)" for one in files) + "\n"
    text = path.read_text(encoding="utf-8")
    marks = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    language = LANGUAGE_OF.get(path.suffix, "text")
    return f"{head}{marks}{language}\n{text.rstrip()}\n{marks}\n"


def expanded(menu: list[Any], found: dict[str, str]) -> Iterator[Any]:
    """Yields the menu with each pattern such as `gallery/*` replaced by its pages that are not named before."""
    named = set(listed(menu))
    for entry in menu:
        if isinstance(entry, str) and entry.endswith("*"):
            yield from sorted(
                (page for page in found.values() if posixpath.dirname(page) == entry[:-2] and page not in named),
                key=str.casefold,
            )
        elif isinstance(entry, dict):
            ((title, inner),) = entry.items()
            yield {title: list(expanded(inner, found)) if isinstance(inner, list) else inner}
        else:
            yield entry


def listed(menu: list[Any]) -> Iterator[str]:
    """Yields the pages of a menu."""
    for entry in menu:
        inner = next(iter(entry.values())) if isinstance(entry, dict) else entry
        if isinstance(inner, list):
            yield from listed(inner)
        else:
            yield inner


def contents(tree: list[Any]) -> str:
    """Returns `llms.txt`: a line for each page of the menu, with the address of its Markdown."""
    lines = ["# Palaestra", "", f"> {opening((ROOT / 'README.md').read_text(encoding='utf-8'))}"]
    for entry in tree:
        ((title, inner),) = entry.items()
        lines += ["", f"## {title}", ""]
        for place in listed(inner):
            text = (BUILD / "docs" / "en" / place).read_text(encoding="utf-8")
            heading = re.findall(r"^# (.+)$", text, re.MULTILINE)[0]
            lines.append(f"- [{heading}]({re.sub('README.md$', 'index.md', place)}): {opening(text)}")
    return "\n".join(lines) + "\n"


def opening(text: str) -> str:
    """Returns a page's first paragraph on one line, without the addresses of its links."""
    body = re.split(r"^# .+$", FENCE.sub("", text), maxsplit=1, flags=re.MULTILINE)[-1]
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", body))
    found = next((part for part in paragraphs if part and not re.match(r"#|!\[|\||>|[-*] |\*Made from", part)), "")
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", found)


def configured(language: str, menu: list[Any], versions: bool) -> str:
    """Returns the configuration of the site in one language: the project's `mkdocs.yml`, and where the pages are."""
    up = "" if language == "en" else "../"
    return yaml.safe_dump(
        {
            "INHERIT": "../../mkdocs.yml",
            "docs_dir": f"docs/{language}",
            "site_dir": "../../site",
            "theme": {"custom_dir": "../../docs/site/theme", "language": language},
            "hooks": ["../../docs/site/hooks.py"],
            "nav": menu,
            "plugins": {"search": {"lang": language, **(SEARCH if language == "en" else {})}},
            **({} if language == "en" else {"validation": {"links": {"not_found": "ignore"}}}),  # to English pages
            "extra": {
                "alternate": [
                    {"name": "English", "link": f"{up}index.html", "lang": "en"},
                    {"name": "简体中文", "link": f"{up}zh/index.html", "lang": "zh"},
                ],
                **({"version": {"provider": "mike"}} if versions else {}),
            },
        },
        allow_unicode=True,
        sort_keys=False,
    )


def write(path: Path, text: str) -> None:
    """Writes a text file, and its folder if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    try:
        prepare(versions="--versions" in sys.argv[1:])
    except SiteError as error:
        sys.exit(f"error: {error}")
