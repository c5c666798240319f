from pathlib import Path

import pytest

from palaestra.runtime.monitor.run_index import RunIndex
from palaestra.runtime.showing.run_notes import RunNotes, clean_tags, write_notes


def test_notes_are_kept_in_the_runs_folder(tmp_path: Path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "configuration.yaml").write_text("behaviors: {}")
    index = RunIndex(tmp_path)
    index.statuses()
    assert index.notes("run") == RunNotes()
    notes = RunNotes(clean_tags([" best ", "a  b", "best", ""]), "two\nlines <b>")
    assert notes.tags == ("best", "a b")
    write_notes(tmp_path / "run", notes)
    assert index.notes("run") == notes
    assert index.notes("../secret") == RunNotes()


@pytest.mark.parametrize("data", [None, [], {"tags": 3, "note": []}, {"tags": [1, {}], "note": None}])
def test_whatever_else_is_there_counts_as_nothing(data: object):
    assert RunNotes.of(data) == RunNotes()
