"""Plays a game of unity_games or unity_crowd as Unity's player would: `--mlagents-port`, `-logFile`; what it does not
know it ignores.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--mlagents-port", type=int, help="none: it plays without a trainer, that is, not at all")
    parser.add_argument("-logFile", "-logfile", dest="log", type=Path)
    parser.add_argument("--game", default="Ball", help="Ball, Hasty, Empty, Endings, Crowd, Arena")
    parser.add_argument(
        "--notes",
        type=Path,
        help="folder: <pid>.json at the start (pid, port, argv) and <pid>.end.json (the ledger) at the end",
    )
    parser.add_argument("--version", default="1.5.0")
    parser.add_argument("--package", default="3.0.0")
    parser.add_argument("--die-at", type=int, default=-1)
    parser.add_argument("--die-how", default="hang", help="the ways of unity_games.Fate")
    parser.add_argument("--die-code", type=int, default=3)
    parser.add_argument("--words", default="", help="to stderr before it dies")
    parser.add_argument("--hello", default="", help="to stdout at the start")
    parser.add_argument("--hoard", type=int, default=0, help="MiB of memory that it takes")
    parser.add_argument(
        "--stubborn", action="store_true", help="deaf to SIGINT and SIGTERM, and stays for a minute after the game"
    )
    parser.add_argument(
        "--child", action="store_true", help="starts a process of its own, as crash handlers are (note: child)"
    )
    parser.add_argument("--copies", type=int, default=1, help="of the build that keep pace by their notes")
    for name, kind in {"agents": int, "episode": int, "ticks": int, "seed": int, "messages": int, "ms": float}.items():
        parser.add_argument(f"--{name}", type=kind, default=argparse.SUPPRESS)
    for name in ("stats", "echo", "masks-bind", "camera"):
        parser.add_argument(f"--{name}", action="store_true", default=argparse.SUPPRESS)
    return parser.parse_known_args(argv)[0]


def make_game(args: argparse.Namespace) -> Any:
    import unity_games

    fate = unity_games.Fate(args.die_at, args.die_how, args.die_code, args.words)
    names = ("agents", "episode", "ticks", "seed", "messages", "ms", "stats", "echo", "masks_bind", "camera")
    options = {name: getattr(args, name) for name in names if hasattr(args, name)}
    if args.game == "Crowd":
        from unity_crowd import Crowd

        return Crowd(version=args.version, package=args.package, fate=fate, **options)
    if args.game == "Arena":
        from unity_arena import Arena

        return Arena(version=args.version, package=args.package, fate=fate, **options)
    return getattr(unity_games, args.game)(version=args.version, package=args.package, fate=fate, **options)


def note(folder: Path | None, name: str, values: dict[str, Any]) -> None:
    """Whole or not at all: a test that waits for the file never reads half of it."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f"{os.getpid()}.unfinished"
        unfinished.write_text(json.dumps(values), "utf-8")
        unfinished.rename(folder / name)


def keep_pace(game: Any, folder: Path, copies: int) -> None:
    """Lets a game answer its n-th time only when all copies are so far, or one has ended."""
    ticks = folder / f"{os.getpid()}.ticks"
    step = game.step

    def paced(reply: Any) -> Any:
        with ticks.open("ab") as file:
            file.write(b".")
        far = ticks.stat().st_size
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not any(folder.glob("*.end.json")):
            if sum(each.stat().st_size >= far for each in folder.glob("*.ticks")) >= copies:
                break
            time.sleep(0.001)
        return step(reply)

    game.step = paced


def main(argv: list[str]) -> None:
    args = parse(argv)
    if args.log is not None:
        log = os.open(args.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
    if args.stubborn:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "60"]).pid if args.child else None
    note(
        args.notes,
        f"{os.getpid()}.json",
        {"pid": os.getpid(), "port": args.mlagents_port, "argv": argv, "child": child},
    )
    if args.hello:
        print(args.hello, flush=True)
    if args.die_at == 0 and args.die_how == "exit":  # at once, as a build does that cannot start
        print(args.words, file=sys.stderr, flush=True)
        os._exit(args.die_code)
    hoard = bytearray(os.urandom(1) * (args.hoard << 20))
    from unity_client import Client

    game = make_game(args)
    if args.copies > 1:
        keep_pace(game, args.notes, args.copies)
    try:
        game.run(Client(args.mlagents_port, patience=600))
    finally:
        hoard.clear()
        side_channel = bytes(game.side_channel).hex()
        ended = {
            "ended": game.ended,
            "sent": game.sent,
            "resets": game.resets,
            "side_channel": side_channel,
            **game.expected.plain(),
        }
        ended |= game.notes() if hasattr(game, "notes") else {}
        note(args.notes, f"{os.getpid()}.end.json", ended)
        if args.stubborn:
            time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1:])
