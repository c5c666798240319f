from pathlib import Path

from palaestra.envs.runners import player_logs
from palaestra.envs.runners.player_logs import GrowingLogs, LogPart, write_logs


def test_logs_come_home_piece_by_piece_and_begin_anew_with_a_restart(tmp_path: Path):
    away = tmp_path / "away"
    home = tmp_path / "home"
    away.mkdir()
    logs = GrowingLogs(away)
    log = away / "Player-3.log"
    log.write_text("one\n")
    write_logs(home, logs.take(now=True))
    with log.open("a") as file:
        file.write("two\n")
    write_logs(home, logs.take(now=True))
    assert (home / "Player-3.log").read_text() == "one\ntwo\n"
    assert logs.take(now=True) == []
    log.write_text("anew\n")
    write_logs(home, logs.take(now=True))
    assert (home / "Player-3.log").read_text() == "anew\n"


def test_they_are_looked_at_now_and_then_only(tmp_path: Path):
    logs = GrowingLogs(tmp_path)
    (tmp_path / "Player-0.log").write_text("first")
    assert [part.content for part in logs.take()] == [b"first"]
    (tmp_path / "Player-0.log").write_text("first and more")
    assert logs.take() == []
    assert [part.content for part in logs.take(now=True)] == [b" and more"]
    (tmp_path / "Player-1.log").write_bytes(b"a" * player_logs.MOST + b"end")
    (part,) = logs.take(now=True)  # only the end of a long piece travels
    assert len(part.content) == player_logs.MOST
    assert part.content.endswith(b"end")


def test_a_name_cannot_lead_out_of_the_folder(tmp_path: Path):
    write_logs(tmp_path / "home", [LogPart("../../evil.log", b"x", False)])
    assert [file.name for file in tmp_path.rglob("*.log")] == ["evil.log"]
    assert (tmp_path / "home" / "evil.log").exists()
