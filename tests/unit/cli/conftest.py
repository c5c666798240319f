"""Runs commands in this process, for the tests of this folder."""

import pytest

from palaestra.cli.main import main


class Terminal:
    """Runs commands, each given as words or as one line."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def _run(self, words: tuple[object, ...]) -> tuple[object, str, str]:
        self._capsys.readouterr()
        line = str(words[0]).split() if len(words) == 1 else map(str, words)
        try:
            status = main([*line])
        except SystemExit as end:
            status = end.code
        return status, *self._capsys.readouterr()

    def __call__(self, *words: object) -> str:
        """Returns what a command that succeeds prints."""
        status, output, error = self._run(words)
        assert status == 0, error
        return output

    def fails(self, *words: object, status: int = 1) -> str:
        """Returns the message of a command that ends with this status."""
        ended, _, error = self._run(words)
        assert ended == status, error
        assert "Traceback" not in error
        return error


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)
