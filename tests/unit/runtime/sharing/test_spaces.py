from pathlib import Path

import pytest
from hub_server import Hub

from palaestra.core.errors import HubError
from palaestra.runtime.sharing.pushing import push_page


def test_a_page_becomes_a_space_that_a_later_push_replaces(hub: Hub, tmp_path: Path):
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("one")
    (tmp_path / "assets" / "model.js").write_text("PALAESTRA.model = 1;")
    address = push_page(tmp_path, "ann/ball", "first")
    assert address == f"{hub.url}/spaces/ann/ball"
    there = hub.repos["spaces/ann/ball"].files
    assert there["index.html"] == b"one"
    assert there["assets/model.js"].startswith(b"PALAESTRA")
    assert "sdk: static" in there["README.md"].decode()
    (tmp_path / "index.html").write_text("two")
    push_page(tmp_path, "ann/ball", "first")
    assert hub.repos["spaces/ann/ball"].files["index.html"] == b"two"


def test_a_space_that_is_something_else_is_left_alone(hub: Hub, tmp_path: Path):
    (tmp_path / "index.html").write_text("one")
    hub.add("spaces/ann/ball", {"README.md": b"mine"})
    with pytest.raises(HubError, match="is another page: add --force"):
        push_page(tmp_path, "ann/ball", "first")
    push_page(tmp_path, "ann/ball", "first", force=True)
    assert hub.repos["spaces/ann/ball"].files["index.html"] == b"one"
