"""The result against the classes of the settings, in the words of the old files' lines."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from palaestra.core.errors import ConfigError
from palaestra.core.settings import IGNORED_KEY, NO_OWN_CODE, UNKNOWN_KEY
from palaestra.runtime.settings import RunSettings
from palaestra.runtime.settings.draft import Draft, dotted
from palaestra.runtime.settings.errors import problem
from palaestra.runtime.settings.yaml_file import Document, Key
from palaestra.runtime.upgrade.new_tree import NewTree
from palaestra.runtime.upgrade.report import Report


def check(new: NewTree, report: Report) -> None:
    """Leaves unknown keys out, with a warning. Raises ConfigError for all that cannot be used."""
    while True:
        draft = Draft(Document(tree=deepcopy(new.tree)), None)
        draft.inherit(own_code=False)
        try:
            RunSettings.model_validate(draft.tree, context={NO_OWN_CODE: True})
            return
        except ValidationError as error:
            errors = error.errors()
        unknown = [problem(error) for error in errors if error["type"] in (UNKNOWN_KEY, IGNORED_KEY)]
        removed = [(path, sentence) for path, sentence in unknown if _remove(new.tree, path)]
        for path, sentence in removed:
            report.warn(new.place(path), f"{dotted(path)}: {sentence}: left out")
        if not removed:
            found = {(new.place(path), path[-1], sentence): path for path, sentence in reversed([problem(error) for error in errors])}
            lines = [f"{place}: {dotted(path)}: {sentence}" for (place, _, sentence), path in reversed(found.items())]
            raise ConfigError(lines[0] if len(lines) == 1 else "\n  ".join([f"{len(lines)} settings cannot be used:", *lines]))


def _remove(tree: Any, path: Key) -> bool:
    """False where a block only inherits it, from default_settings, which is told of it too."""
    at = tree
    for key in path[:-1]:
        if not (key in at if isinstance(at, dict) else isinstance(at, list)):
            return False
        at = at[key]
    return isinstance(at, dict) and at.pop(path[-1], at) is not at
