import pytest

from palaestra.core.errors import HubError
from palaestra.hub.contents import Contents, belongs, contents_of, models, must_be_run
from palaestra.hub.hub_client import Listing, RemoteFile


def contents(*paths: str) -> Contents:
    return contents_of(Listing("ann/ppo", "c" * 40, tuple(RemoteFile(p, 1, None, None) for p in paths), private=False))


@pytest.mark.parametrize(
    "path",
    [
        "../x.onnx",
        "a/../../x.onnx",
        "/etc/x.onnx",
        "C:/x.onnx",
        "..\\x.onnx",
        "a\\b.onnx",
        "a//b.onnx",
        "./a.onnx",
        "a\n.onnx",
        "a/" * 9 + "b.onnx",
    ],
)
def test_a_name_that_leads_elsewhere_refuses_the_repository(path: str):
    with pytest.raises(HubError, match=r"unsafe name.*nothing was downloaded"):
        contents("3DBall.onnx", path)


def test_two_names_for_one_file_refuse_the_repository():
    with pytest.raises(HubError, match="two names for one file"):
        contents("3DBall.onnx", "3dball.onnx")


@pytest.mark.parametrize(
    "path",
    [
        "evil.py", "setup.sh", "model.pkl", "policy.bin", ".lock", ".writer.json", ".git/config.json",
        "run_logs/signature", "run_logs/requests/1.json", "run_logs/Player-0.log", "run_logs/wandb.json", "con.onnx",
        "RUN_LOGS/x.json",
    ],
)  # fmt: skip
def test_programs_pickles_and_files_of_one_machine_are_left_out(path: str):
    assert not belongs(path)
    assert contents("3DBall.onnx", path).left_out == (path,)


@pytest.mark.parametrize(
    "path",
    [
        "3DBall.onnx",
        "3DBall/checkpoint.pt",
        "3DBall/events.out.tfevents.1.host.2",
        "run_logs/timers.json",
        "checkpoints/5/run.safetensors",
        "LICENSE",
    ],
)
def test_what_a_run_has_is_taken(path: str):
    assert belongs(path)


def test_the_final_model_is_taken_before_those_of_steps():
    assert models(
        ["B.onnx", "B/B-10.onnx", "B/B-9.onnx", "B-best.onnx", "C/C-9.onnx", "C/C-10.onnx", "D/E-3.onnx"]
    ) == {"B": "B.onnx", "C": "C/C-10.onnx"}


def test_a_repository_of_something_else_is_named_by_its_files():
    with pytest.raises(HubError, match=r"ann/ppo is no run .* but config.json, weights.safetensors$"):
        must_be_run(contents("config.json", "weights.safetensors", ".gitattributes"))
