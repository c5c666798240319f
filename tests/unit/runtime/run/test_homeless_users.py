"""A user whose number has no entry in the password file, and who has no HOME, as in containers that run with any user
id.
"""

import os
import tempfile
from pathlib import Path

import pytest
from any_env import Anything
from small_runs import settings

import palaestra
from palaestra.core.errors import DemoError
from palaestra.core.files import expanded, home, user_name
from palaestra.core.specs import ActionSpec, ObsSpec
from palaestra.datasets.minari_library import datasets_root
from palaestra.runtime.control.run_requests import RunRequest, ask
from palaestra.runtime.sharing.shareable import Cleaner, tells_home
from palaestra.runtime.storage.trust import KEY
from palaestra.runtime.storage.user_keys import user_key

pwd = pytest.importorskip("pwd")


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "USER", "LOGNAME", "LNAME", "USERNAME", "XDG_CONFIG_HOME", "MINARI_DATASETS_PATH"):
        monkeypatch.delenv(name, raising=False)

    def nobody(*_: object) -> None:
        raise KeyError("uid not found")

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)


def test_the_user_has_a_number_for_a_name_and_no_home():
    assert user_name() == f"user {os.getuid()}"
    assert home() is None
    assert expanded(Path("~/games")) == Path("~/games")
    assert user_key(KEY) is not None


def test_a_run_is_trained_resumed_and_asked_and_no_folder_is_named_after_a_home(tmp_path):
    tree = settings("Any", 200)
    env = Anything((ObsSpec("vector", (3,)),), ActionSpec(1))
    for resume in (False, True):
        result = palaestra.train(tree, env=env, run_id="a", resume=resume, quiet=True)
        assert result.finished
    ask(result.folder, RunRequest("save"))
    assert list(tmp_path.rglob("*~*")) == []


def test_nothing_of_a_home_is_taken_out_of_what_is_pushed(tmp_path):
    (tmp_path / "file").write_text("/srv/x")
    assert not tells_home(tmp_path / "file")
    assert Cleaner().text("a/b", "at") == "a/b"


def test_minari_asks_for_a_folder():
    with pytest.raises(DemoError, match="MINARI_DATASETS_PATH"):
        datasets_root()
