import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hub_server import Hub

import palaestra
from palaestra.core.errors import HubError
from palaestra.hub import hub_client
from palaestra.hub.fetching import fetch_model, fetch_run, look, order_by_age
from palaestra.hub.hub_client import HubName

MODEL = (Path(__file__).parents[2] / "golden/data/onnx/unity_examples/3DBallHard.onnx").read_bytes()


def by_time(folder: Path) -> list[str]:
    return [path.name for path in sorted(folder.rglob("*.onnx"), key=lambda path: path.stat().st_mtime)]


def test_a_policy_of_the_hub_is_the_file_there(hub: Hub):
    hub.add("ann/hard", {"3DBallHard.onnx": MODEL, "3DBallHard/3DBallHard-5.onnx": MODEL})
    policy = palaestra.load_policy("hub:ann/hard", seed=1)
    assert policy.path.read_bytes() == MODEL
    assert policy.act(np.zeros((3, 45)), deterministic=True).continuous is not None


def test_a_policy_of_the_hub_needs_neither_torch_nor_warp(hub: Hub):
    hub.add("ann/hard", {"3DBallHard.onnx": MODEL})
    code = "import sys, palaestra; palaestra.load_policy('hub:ann/hard'); print({'torch', 'warp'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "HF_HUB_DISABLE_XET": "1"}
    )
    assert done.stdout.strip() == "set()", done.stderr


def test_a_local_name_does_not_import_the_library(tmp_path: Path):
    (tmp_path / "m.onnx").write_bytes(MODEL)
    code = "import sys, palaestra; palaestra.load_policy('m.onnx'); print('huggingface_hub' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "False", done.stderr


def test_a_fetched_model_is_found_again_without_a_network(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    hub.add("ann/hard", {"3DBallHard.onnx": MODEL})
    first = fetch_model("hub:ann/hard")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert fetch_model("hub:ann/hard") == first


def test_a_repository_of_several_behaviors_asks_for_one_of_them(hub: Hub):
    hub.add("ann/two", {"A.onnx": MODEL, "B.onnx": MODEL})
    with pytest.raises(HubError, match=r"several models.*hub:ann/two/A.onnx, hub:ann/two/B.onnx"):
        fetch_model("hub:ann/two")
    assert fetch_model("hub:ann/two/B.onnx").name == "B.onnx"


def test_a_file_that_is_not_there_is_told_with_those_that_are(hub: Hub):
    hub.add("ann/hard", {"3DBallHard.onnx": MODEL})
    with pytest.raises(HubError, match=r"has no file 'x.onnx' \(models there: 3DBallHard.onnx\)"):
        fetch_model("hub:ann/hard/x.onnx")


def test_a_revision_is_a_branch_or_a_commit(hub: Hub):
    repo = hub.add("ann/hard", {"3DBallHard.onnx": MODEL})
    old = repo.branches["main"]
    repo.commit({"3DBallHard.onnx": b"new"})
    assert fetch_model(f"hub:ann/hard@{old}").read_bytes() == MODEL
    assert fetch_model("hub:ann/hard").read_bytes() == b"new"
    with pytest.raises(HubError, match="has no branch, tag or commit 'v9'"):
        fetch_model("hub:ann/hard@v9")


def test_a_model_larger_than_the_disk_is_refused_before_it_is_downloaded(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    hub.add("ann/hard", {"3DBallHard.onnx": MODEL})
    monkeypatch.setattr("palaestra.hub.fetching.RESERVE", 10**18)
    with pytest.raises(HubError, match=r"needs .* GB, and the disk of"):
        fetch_model("hub:ann/hard")
    assert not [line for line in hub.requests if "resolve" in line]


def test_an_unsafe_name_refuses_even_one_model_of_the_repository(hub: Hub):
    hub.add("eve/evil", {"3DBallHard.onnx": MODEL, "../../3DBallHard.onnx": MODEL})
    with pytest.raises(HubError, match="unsafe name"):
        fetch_model("hub:eve/evil/3DBallHard.onnx")


def test_the_newest_model_by_the_list_of_models_has_the_newest_time(tmp_path: Path):
    (tmp_path / "run_logs").mkdir()
    (tmp_path / "B").mkdir()
    entries = [(10, 3000.0), (9, 2000.0)]
    listed = ", ".join(f'{{"steps": {n}, "file_path": "r/B/B-{n}.onnx", "creation_time": {at}}}' for n, at in entries)
    final = '{"steps": 9, "file_path": "r/B.onnx", "creation_time": 2000.5}'
    (tmp_path / "run_logs/training_status.json").write_text(
        f'{{"B": {{"checkpoints": [{listed}], "final_checkpoint": {final}}}}}'
    )
    for name in ("B/B-10.onnx", "B/B-9.onnx", "B.onnx"):
        (tmp_path / name).write_bytes(b"")
    order_by_age(tmp_path)
    assert by_time(tmp_path) == ["B-9.onnx", "B.onnx", "B-10.onnx"]


def test_without_a_list_of_models_steps_come_in_order_and_the_final_one_last(tmp_path: Path):
    (tmp_path / "B").mkdir()
    for name in ("B.onnx", "B/B-9.onnx", "B/B-10.onnx"):
        (tmp_path / name).write_bytes(b"")
    order_by_age(tmp_path)
    assert by_time(tmp_path) == ["B-9.onnx", "B-10.onnx", "B.onnx"]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (429, "takes no more requests for now"),
        (500, "has a problem of its own"),
        (403, "is refused"),
        (418, "status 418"),
    ],
)
def test_a_refusal_is_one_sentence(hub: Hub, status: int, said: str):
    hub.status = status
    with pytest.raises(HubError, match=said) as error:
        look(HubName("ann/hard"))
    assert "\n" not in str(error.value)


def test_neither_a_token_nor_a_password_is_in_a_message(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_TOKEN", "my-own-token")
    said = hub_client.without_secrets("Bearer abc, my-own-token, hf_abcdefghij at https://ann:pass@host/x")
    assert said == "***, ***, *** at https://***host/x"


def test_a_run_of_other_things_is_refused(hub: Hub):
    hub.add("ann/bert", {"config.json": b"{}", "model.safetensors": b"x"})
    with pytest.raises(HubError, match="is no run of Palaestra or ML-Agents"):
        fetch_run("hub:ann/bert")
