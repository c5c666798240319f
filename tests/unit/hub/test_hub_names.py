import pytest

from palaestra.core.errors import ConfigError
from palaestra.hub.hub_names import HubName, is_hub_name, read_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("hub:ann/ppo-3DBall", HubName("ann/ppo-3DBall")),
        ("ann/ppo-3DBall", HubName("ann/ppo-3DBall")),
        ("hub:ann/ppo@v1.0", HubName("ann/ppo", revision="v1.0")),
        ("hub:ann/ppo@refs/pr/1", HubName("ann/ppo", revision="refs/pr/1")),
        ("hub:ann/ppo@5000", HubName("ann/ppo", step=5000)),
        ("hub:ann/ppo@v1@5000", HubName("ann/ppo", revision="v1", step=5000)),
        ("hub:ann/ppo/3DBall.onnx", HubName("ann/ppo", "3DBall.onnx")),
        ("hub:ann/ppo/3DBall/3DBall-5.onnx@v1", HubName("ann/ppo", "3DBall/3DBall-5.onnx", "v1")),
        ("https://huggingface.co/ann/ppo", HubName("ann/ppo")),
        ("https://huggingface.co/ann/ppo/tree/v1", HubName("ann/ppo", revision="v1")),
        ("https://huggingface.co/ann/ppo/blob/main/3DBall.onnx", HubName("ann/ppo", "3DBall.onnx", "main")),
    ],
)
def test_a_name_has_a_repository_a_file_a_revision_and_a_step(text: str, name: HubName):
    assert read_name(text) == name
    assert read_name(str(name)) == name


@pytest.mark.parametrize(
    "text",
    [
        "hub:",
        "ann",
        "ann/",
        "/ann/ppo",
        "../x",
        "ann/..",
        "ann/../x",
        "ann/ppo..x",
        "a b/c",
        "ann/ppo@",
        "ann/" + "x" * 97,
        "ann/x.git",
    ],
)
def test_other_texts_name_no_repository(text: str):
    with pytest.raises(ConfigError, match="names no repository of the Hub; expected user/repository"):
        read_name(text)


def test_only_a_prefix_makes_a_name_of_the_hub():
    assert is_hub_name("hub:ann/ppo")
    assert not is_hub_name("ann/ppo")
