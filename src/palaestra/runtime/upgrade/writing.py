"""The new file's text."""

from __future__ import annotations

from palaestra.runtime.settings import yaml_file
from palaestra.runtime.upgrade.new_tree import NewTree

WIDTH = 10_000
"""Text is not folded, so that a remark can stand behind it."""

ORDER = ("default_settings", "behaviors", "environment_parameters")


def to_text(new: NewTree, heading: str) -> str:
    """YAML with remarks, which `yaml_file.parse` reads back to the tree."""
    tree = {key: new.tree[key] for key in (*ORDER, *new.tree) if key in new.tree}
    text = yaml_file.dump(tree, WIDTH)
    lines = text.splitlines()
    for path, line in yaml_file.parse(text).lines.items():
        if remark := new.remarks.get(path):
            lines[line - 1] += f"  # {remark}"
    return "\n".join([f"# {heading}", *lines, ""])
