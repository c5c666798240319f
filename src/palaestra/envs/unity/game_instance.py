"""One copy of the game: its process, its server and its connection."""

from __future__ import annotations

import time

from palaestra.core.display import indented, shown_path
from palaestra.core.errors import EnvError, GameGone, NotFinite, ProtocolError
from palaestra.envs.copies import CopyFailed
from palaestra.envs.unity import executable
from palaestra.envs.unity.conversation import Conversation
from palaestra.envs.unity.game_context import GameContext
from palaestra.envs.unity.process import GameProcess, arguments, player_log
from palaestra.envs.unity.timeouts import Phase
from palaestra.wire import encode
from palaestra.wire.limits import empty_long_log
from palaestra.wire.server import Call, HungUp, Server

LAST_LINES = 15
CLOSE_SECONDS = 5.0
"""Seconds that games have at the end to finish their tick and to quit."""
EXIT_SECONDS = 0.5
"""Seconds that a game which hung up has to exit, so that its exit code can be reported."""


class GameInstance:
    """A `Copy` of an environment that is a game. Its messages are the calls that reach its server."""

    index: int
    title: str

    def __init__(self, index: int, context: GameContext) -> None:
        """Listens for the game; `start` starts it."""
        self.index = index
        self._context = context
        options = self.options = context.options
        self.number = options.first_copy + index
        """Number of the copy among the copies of all processes, in names, ports and seeds."""
        self.editor = context.build is None
        self.title = "the Editor" if self.editor else "the game"
        if not self.editor and (options.all_copies or options.copies) > 1:
            self.title = f"copy {self.number} of the game"
        port = options.editor_port if self.editor else options.base_port and options.base_port + self.number
        self.server = Server(index, context.inbox, port, bind=options.bind, fixed=self.editor)
        self.process: GameProcess | None = None
        self.conversation = Conversation(index, self.title, self.server.port, context)
        self._ends_at: float | None = None
        """Time at which the process is killed; None: it was not asked to end."""

    @property
    def delivered(self) -> int:
        """Messages with agents from the current game."""
        game = self.conversation.game
        return 0 if game is None else game.delivered

    def start(self) -> None:
        """Starts the build's process; the Editor is started by the user."""
        if self._context.build is not None:
            log = self._context.logs / f"Player-{self.number}.log"
            command = executable.command(self._context.build)
            command += arguments(self.options, self.number, self.server.port, log)
            output = self._context.logs / f"Player-{self.number}.out"
            try:
                self.process = GameProcess(command, player_log(self.options, log), output, self.options.show_output)
            except GameGone as error:
                raise CopyFailed(error) from error
        self.conversation.silence.enter(Phase.STARTING)

    def receive(self, message: Call | HungUp) -> bool:
        """See `Copy`."""
        talk = self.conversation
        game = talk.game
        try:
            if isinstance(message, Call):
                talk.take(message)
            elif message.call is talk.call:
                talk.call = None
                raise GameGone(self._hung_up())
        except (ProtocolError, NotFinite, GameGone) as error:
            if not self.editor:
                raise CopyFailed(error) from error
            self.stop()
            self.start()
            self._context.log("warning", f"{error}. Its open episodes are left out; press Play to continue")
        except EnvError as error:  # a restart would not help, such as for another version
            raise EnvError(f"{self.title}: {error}") from error
        finally:
            if isinstance(message, Call) and message is not talk.call:
                message.answer(encode.goodbye())  # after any error; an answered call ignores it
        return bool(talk.arrivals) or (game is not None and game is not talk.game)

    def _hung_up(self) -> str:
        if self.process is None:
            return "play mode was stopped, or the connection broke"
        deadline = time.monotonic() + EXIT_SECONDS
        while self.process.code() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        exit_text = "" if self.process.code() is None else f" and {self.process.describe_exit()}"
        return f"it hung up{exit_text}{self.log_tail()}"

    def check(self) -> None:
        """See `Copy`. Also tells the user about a silent game, and empties logs that have grown too long."""
        process = self.process
        if process is not None and process.code() is not None:
            tail = self.log_tail()
            early = "" if self.conversation.game else f" before it connected ({shown_path(self._context.build)})"
            early += ". It wrote no log" if early and not tail else ""
            raise CopyFailed(GameGone(f"it {process.describe_exit(early)}{self._unplayed()}{tail}"))
        talk = self.conversation
        decided = talk.game is not None and talk.game.decided
        if why := talk.silence.check(None if talk.call is None else talk.call.arrived, decided, self.title):
            error = GameGone(why + self.log_tail())
            if self.editor:
                raise error
            raise CopyFailed(error)
        for log in {process.output, process.log} if process is not None else ():
            if size := empty_long_log(log):
                self._context.warn(
                    f"{self.title}: {log} has grown to {size >> 20} MiB; only what is written from now on is kept"
                )

    def _unplayed(self) -> str:
        """Returns a hint for a game in Python that ends without playing."""
        python = self._context.build is not None and executable.is_script(self._context.build)
        if (
            not python
            or self.conversation.silence.phase is not Phase.STARTING
            or self.process is None
            or self.process.code()
        ):
            return ""
        return (
            "; a game in Python must play when it is run: end its file with 'my_game.play()', under 'if __name__ "
            '== "__main__":\''
        )

    def log_tail(self) -> str:
        """Returns the end of the game's log, if it has one."""
        tail = self.process.tail(LAST_LINES) if self.process is not None else ""
        where = "" if self.options.logs is None else f" ({shown_path(self._context.logs)})"
        return indented(f"; the end of its log{where}:\n{tail}") if tail else ""

    def stop(self) -> None:
        """See `Copy`."""
        self.conversation.send_quit()
        if self.process is not None:
            self.process.stop(0)
        self.process = None
        self.conversation.silence.enter(Phase.DOWN)
        self.conversation.forget()

    def leave(self) -> None:
        """See `Copy`."""
        self._ends_at = time.monotonic() + CLOSE_SECONDS
        self.conversation.send_quit()

    @property
    def leaving(self) -> bool:
        """See `Copy`."""
        alive = self.process.code() is None if self.process is not None else self.editor
        talk = self.conversation
        expected = talk.silence.phase not in (Phase.DOWN, Phase.STARTING) and talk.call is None
        return self._ends_at is not None and alive and expected

    def farewell(self, message: Call | HungUp) -> None:
        """See `Copy`."""
        if isinstance(message, Call):
            message.answer(encode.goodbye())
            self.conversation.silence.enter(Phase.DOWN)

    def kill(self) -> None:
        """See `Copy`."""
        if self.process is not None:
            self.process.kill()

    def close(self) -> None:
        """See `Copy`."""
        if self.process is not None:
            grace = max(0.0, (self._ends_at or 0.0) - time.monotonic())
            if not grace or self.conversation.silence.phase is Phase.STARTING or self.leaving:
                self.process.kill()
            self.process.stop(grace)
        self.server.close()
