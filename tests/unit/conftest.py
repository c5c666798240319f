"""Its place makes `tiny_envs` importable from every test below."""

import signal
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_server import WRITER, Hub, serving

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in jobs that a script starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _own_configuration_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests leave no key in the configuration folder of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        yield


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A stand-in for the Hugging Face Hub, with a user who may write and a cache of the test's own."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)  # read once, when it is imported
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", WRITER)
    with serving() as served, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Use 'content=", DeprecationWarning)  # the library's own upload
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served
        getattr(huggingface_hub, "close_session", lambda: None)()
