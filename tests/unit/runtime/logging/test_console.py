import io
import os
import re
import sys
from pathlib import Path

import pytest
from small_runs import settings

from palaestra import train
from palaestra.runtime.logging.console import Console, Pace, ProgressRow, live_line, sentence
from palaestra.runtime.logging.waiting import on_stdout

ROW = ProgressRow("3DBall", 310_000, 500_000, 98.25)
SHARES = {"env": 0.21, "infer": 0.3, "learn": 0.45}


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def line(columns: int, row: ProgressRow = ROW, plain: bool = False) -> str:
    return live_line(row, 18400.0, SHARES, (columns, 6), plain).plain


def test_a_line_has_its_level_and_nothing_else():
    out = io.StringIO()
    console = Console(False, out)
    console.info("a [red]b[/red]")
    console.warning("w")
    console.error("e")
    console.debug("d")
    assert out.getvalue() == "[INFO] a [red]b[/red]\n[WARNING] w\n[ERROR] e\n"


def test_debug_lines_have_time_and_origin():
    out = io.StringIO()
    Console(True, out).debug("d")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d DEBUG \[test_console\.py:\d+\] d\n", out.getvalue())


def test_standard_output_is_where_lines_go(capsys):
    Console(False).info("x")
    assert capsys.readouterr().out == "[INFO] x\n"


def test_where_there_is_no_terminal_progress_is_silent_for_a_minute(monkeypatch):
    out = io.StringIO()
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    console = Console(False, out)
    for second in range(125):
        now[0] = 1000.0 + second
        console.progress([ProgressRow("B", second * 100, 100_000, None)])
    assert out.getvalue().splitlines() == [
        "[INFO] B: step 6,000 of 100,000 (6%), 100 agent-steps/s, 15:40 left",
        "[INFO] B: step 12,000 of 100,000 (12%), 100 agent-steps/s, 14:40 left",
    ]


def test_a_notebook_shows_the_newest_summaries_in_one_place_and_the_log_has_all(monkeypatch, capsys):
    shown, logged, now = [], [], [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("palaestra.runtime.logging.console.in_notebook", lambda: True)
    monkeypatch.setattr("palaestra.core.display.NotebookLines.show", lambda _, lines: shown.append(list(lines)))
    console = Console(False)
    console.attach(lambda _, text: logged.append(text))
    console.progress([ProgressRow("B", 100, 1000, None)])
    for number in range(9):
        console.summary(f"summary {number}")
    now[0] += 1
    console.summary("summary 9")
    assert shown[-1][0] == (0.1, "B: step 100 of 1,000 (10%)")
    console.close()
    assert [text for _, text in shown[-1]] == [f"[INFO] summary {number}" for number in range(5, 10)]
    assert (len(shown), len(logged), capsys.readouterr().out) == (4, 10, "")
    console.info("between")  # summaries after it stand below it
    console.summary("summary 10")
    assert [text for _, text in shown[-1]] == ["[INFO] summary 10"]


def test_progress_looks_at_most_four_times_a_second(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    console = Console(False, Screen())
    looks = 0
    for _ in range(200):
        now[0] += 0.01
        looks += console.due()
        console.progress([ROW])
    console.close()
    assert looks == 8


def test_on_a_terminal_lines_go_above_the_live_one_which_leaves_no_trace(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    screen = Screen()
    console = Console(False, screen)
    console.progress([ROW], SHARES)
    console.warning("careful")
    console.close()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    assert plain.index("310,000") < plain.index("[WARNING] careful") < plain.rindex("310,000")
    assert "\x1b[33m[WARNING] careful" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")


def test_no_color_takes_the_color_away(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen()
    Console(False, screen).warning("careful")
    assert screen.getvalue() == "[WARNING] careful\n"


def test_a_dumb_terminal_has_no_live_line(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    screen = Screen()
    Console(False, screen).progress([ROW])
    assert screen.getvalue() == ""


def test_a_wide_line_has_everything():
    assert line(200) == (
        "3DBall  "
        + "━" * 18
        + "┄" * 12
        + "  62%  310,000/500,000  18,400 agent-steps/s  reward 98.250  0:10 left  env 21% infer 30% learn 45%"
    )


def test_a_narrow_line_fits_and_keeps_what_matters_most():
    for columns in range(200, 20, -1):
        assert len(line(columns)) <= max(columns, 28)
    bar = "━" * 13 + "┄" * 9
    assert line(100) == f"3DBall  {bar}  62%  310,000/500,000  18,400 agent-steps/s  reward 98.250  0:10 left"
    assert line(50) == "3DBall  62%  reward 98.250  0:10 left"
    assert line(30) == "3DBall  62%  reward 98.250"


def test_a_terminal_without_unicode_gets_a_plain_bar():
    assert line(100, plain=True).isascii()


def test_without_an_end_there_is_neither_share_nor_time_left():
    row = ProgressRow("3DBall", 1500, None, None)
    assert line(80, row) == "3DBall  1,500  18,400 agent-steps/s  env 21% infer 30% learn 45%"
    assert sentence(row, None) == "3DBall: step 1,500"


@pytest.mark.parametrize(
    ("rate", "left"),
    [
        (1000.0, "3:10 left"),
        (100.0, "31:40 left"),
        (10.0, "5:16:40 left"),
        (1.0, "2 d 4 h left"),
        (0.0, "reward 98.250"),
    ],
)
def test_time_left_is_told_in_fitting_units(rate, left):
    assert sentence(ROW, rate).endswith(left)


def test_a_finished_behavior_has_no_time_left():
    assert "left" not in sentence(ProgressRow("B", 510, 500, None), 10.0)
    assert "(100%)" in sentence(ProgressRow("B", 510, 500, None), 10.0)


def test_the_rate_is_of_the_last_minute():
    pace = Pace()
    pace.add(0.0, 0)
    assert pace.rate() is None
    for second in range(1, 121):
        pace.add(float(second), second * (10 if second <= 60 else 20) - (0 if second <= 60 else 600))
    assert pace.rate() == 20.0


def test_what_the_stream_cannot_encode_is_escaped():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", newline="\n")
    Console(False, stream).info("é")
    assert raw.getvalue() == b"[INFO] \\xe9\n"


@pytest.mark.skipif(sys.platform == "win32", reason="pipes differ")
def test_a_reader_that_has_gone_away_does_not_stop_the_run():
    read, write = os.pipe()
    out = os.fdopen(write, "w")
    console = Console(False, out)
    os.close(read)
    console.info("x")
    console.info("y")
    out.close()  # what it still held goes nowhere


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_silences_the_console_and_standard_error_says_so_once(capsys):
    with open("/dev/full", "w") as out:
        console = Console(False, out)
        console.info("x")
        console.info("y")
    warning = "standard output cannot be written (the disk is full): the run continues and prints nothing more"
    assert capsys.readouterr().err == f"palaestra: warning: {warning}\n"


def test_names_cannot_pretend_to_be_lines_or_colors():
    out = io.StringIO()
    console = Console(False, out)
    console.info("New behavior 'a\n[ERROR] b\x1b[31m'")
    console.info("3 things:\n  first")
    assert out.getvalue() == "[INFO] New behavior 'a\\n[ERROR] b\\x1b[31m'\n[INFO] 3 things:\n  first\n"
    row = ProgressRow("a\x1b[31m", 3, None, None)
    assert sentence(row, None) == "a\\x1b[31m: step 3"
    assert "\x1b" not in live_line(row, None, {}, (80, 10), plain=True).plain


def test_remarks_stand_below_the_live_line_and_below_the_sentences_where_there_is_no_terminal(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setenv("TERM", "dumb")
    screen = Screen()
    console = Console(False, screen)
    now[0] += 61
    console.progress([ROW], SHARES, ["wall lesson 2/5 (High): 43/100 episodes"])
    assert screen.getvalue().splitlines()[-1] == "[INFO] wall lesson 2/5 (High): 43/100 episodes"
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    console = Console(False, screen)
    console.progress([ROW], SHARES, ["wall lesson 2/5 (High): 43/100 episodes"])
    console.close()
    assert screen.getvalue().index("310,000") < screen.getvalue().index("wall lesson 2/5 (High)")


class Tee:
    """What programs put in the place of a standard stream, with nothing but `write`."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)


class Broken(Tee):
    """A stream that fails as it likes, and says that it is a terminal."""

    encoding = 7

    def write(self, text: str) -> int:
        raise RuntimeError("not today")

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Tee(), Broken(), None])
def test_a_run_needs_no_more_of_the_standard_streams_than_write(stream, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "stdin", None)
    on_stdout("waits")
    block = {"hyperparameters": {"batch_size": 20, "buffer_size": 40}, "network_settings": {"hidden_units": 4}}
    run = {"checkpoint_settings": {"results_dir": str(tmp_path)}, "env_settings": {"num_areas": 1}}
    result = train({**settings("Basic", 80, **block, summary_freq=40), **run}, env="Basic")
    assert result.finished
    if type(stream) is Tee:
        assert "[INFO] waits" in stream.text
        assert "[INFO] Basic. Step: 80." in stream.text
