"""The exchange of messages with the game of one copy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from palaestra.core.errors import EnvError, GameGone, NotFinite, ProtocolError
from palaestra.envs.copies import PROGRESS
from palaestra.envs.unity.connected_game import ConnectedGame
from palaestra.envs.unity.game_context import GameContext
from palaestra.envs.unity.table import Arrival
from palaestra.envs.unity.timeouts import Phase, Silence
from palaestra.wire import encode
from palaestra.wire.decode import GameMessage, decode
from palaestra.wire.handshake import read_game_version
from palaestra.wire.readers import check_tick
from palaestra.wire.server import Call


class Conversation:
    """Exchanges messages with one game at a time. Its state, except the counts, belongs to the current game."""

    def __init__(self, index: int, title: str, port: int, context: GameContext) -> None:
        """`port`: the port of the game's server, for messages."""
        self._index = index
        self._title = title
        self._port = port
        self._context = context
        self._options = context.options
        self._editor = context.options.executable is None
        self.silence = Silence(context.options, partial(context.entered, index), context.log)
        self.game: ConnectedGame | None = None
        self.call: Call | None = None
        """Request of the game that waits for an answer."""
        self.arrivals: list[Arrival] = []
        """Agents of the request in `call`."""
        self._must_reset = False
        self._former_peers: set[str] = set()
        """Addresses of earlier games, which may send messages after their connection has been given up."""
        self.dropped = 0
        """Number of ignored messages from programs other than the game."""
        self.received = 0
        """Bytes of all messages from games."""
        self.sent = 0
        """Bytes of all messages to games."""
        self.busy = 0.0
        """Seconds between answers and the next messages."""

    def take(self, call: Call) -> None:
        """Handles a request. A first message is accepted from a build only while no game is connected, and always from
        the Editor, which may have crashed."""
        if self.silence.phase is Phase.DOWN:
            return  # from a game that was ended
        if self.game is None or call.peer != self.game.peer:
            incoming = self._first_message(call)
            if incoming is not None:
                self.received += len(call.raw)
                self._greet(call, incoming)
            return
        self.received += len(call.raw)
        self.busy += self.silence.ends(call.arrived)
        incoming = decode(call.raw)
        introduced = introduces(incoming, connected=True)
        if introduced and self._editor:
            self._greet(call, incoming)
        elif introduced or (self.call is not None and self.call.open):
            call.answer(None)
        elif incoming.status != encode.OK:
            raise GameGone(self._quit_text)
        else:
            self.call = call
            self._handle_message(self.game, incoming)

    def _first_message(self, call: Call) -> GameMessage | None:
        """Returns the message of a game that introduces itself; None for other programs, which are ignored."""
        if not call.open or (self.game is not None and not self._editor):
            if call.peer not in self._former_peers:
                self._drop(call)
            return None
        try:
            incoming = decode(call.raw)
            introduced = introduces(incoming, connected=self.game is not None)
            if call.peer in self._former_peers and not introduces(incoming, connected=False):
                return None
            if not self._editor and incoming.status != encode.OK:
                raise GameGone(self._quit_text)
            if not introduced:
                raise ProtocolError(
                    "its first message does not introduce it (rl_initialization_output): it continues another "
                    "training, or is not a game"
                )
            read_game_version(incoming.hello)
        except GameGone:
            raise
        except EnvError as error:
            known = self.game is not None or bool(self._former_peers)
            of_editor = self._editor and (known or isinstance(error, ProtocolError | NotFinite))
            if not of_editor:  # another version is an error, but for an Editor that connected before
                raise
            self._drop(call, f": {error}")
            return None
        return incoming

    def _drop(self, call: Call, because: str = "") -> None:
        call.answer(None)
        self.dropped += 1
        if self.dropped == 1:
            self._context.log(
                "warning",
                f"{self._title}: another program than the game sent messages on port {self._port}, which are "
                f"ignored{because}",
            )

    @property
    def _quit_text(self) -> str:
        if self._editor:
            return "play mode was stopped"
        return "it quit by itself (Application.Quit, or its window was closed)"

    def _greet(self, call: Call, incoming: GameMessage) -> None:
        """Answers the first message of a game, which replaces a connected game."""
        context = self._context
        version = read_game_version(incoming.hello)
        if self.call is not None:
            self.call.answer(None)
        if self.game is not None and self.game.delivered:
            context.log("warning", f"{self._title} reconnected without quitting. Its open episodes are left out")
        self.forget()
        self._former_peers.discard(call.peer)
        self.game = ConnectedGame(self._index, context.tables.new_source(), version, call.peer)
        self.game.learn(incoming)
        self.silence.enter(Phase.GREETED)
        # its next game gets one seed after those of as many games of every other copy
        seeds_used = context.copies.restarts(self._index) * (self._options.all_copies or self._options.copies)
        if context.channels.greet(self._index, version, seeds_used):
            context.log("info", f"Connected to Unity environment with {version.line()}")
        call.answer(encode.initialization((context.seed + self._index + seeds_used) & 0x7FFFFFFF, self._options.areas))

    def _handle_message(self, game: ConnectedGame, incoming: GameMessage) -> None:
        """Handles a request after the first message: it asks for a command, or carries agents."""
        context = self._context
        check_tick(0 if self.call is None else len(self.call.raw), (), self._options.max_message_mb)
        context.channels.incoming(self._index, incoming.side_channel)
        game.learn(incoming)
        if self.silence.phase is Phase.GREETED or self._must_reset:
            self._reset()
            return
        if not incoming.infos:
            self.silence.note(Phase.EMPTY)
            self.answer({})
            return
        self.arrivals = game.read(
            incoming.infos,
            self._options.max_message_mb,
            context.tables,
            lambda text: context.warn(f"{self._title}: {text}"),
        )
        ends = any(arrival.infos.done.any() for arrival in self.arrivals)
        asks = any((~arrival.infos.done).any() for arrival in self.arrivals)
        game.decided = game.decided or asks
        self.silence.note(Phase.RUNNING if asks else Phase.UNDECIDED)
        if game.decided and (ends or game.delivered % PROGRESS == 0):
            context.copies.progress += 1

    def answer(self, actions: Mapping[str, bytes]) -> None:
        """Sends actions by behavior key, with the messages of side channels."""
        assert self.call is not None
        self.silence.begins(self.call.arrived)
        self._send(encode.step(actions, self._context.channels.outgoing(self._index)))

    def reset(self) -> None:
        """Makes the game begin new episodes: at once if it waits for an answer, otherwise with its next request."""
        self.arrivals = []
        if self.silence.phase in (Phase.DOWN, Phase.STARTING, Phase.GREETED):
            return  # it is going to begin
        if self.call is None:
            self._must_reset = True
        else:
            self._reset()

    def _reset(self) -> None:
        assert self.call is not None
        self._must_reset = False
        self.silence.begins(self.call.arrived)
        self.silence.enter(Phase.RESET)
        self._send(encode.reset(self._context.channels.outgoing(self._index)))

    def _send(self, raw: bytes) -> None:
        call = self.call
        self.call = None
        self.arrivals = []
        assert call is not None
        self.sent += len(raw)
        call.answer(raw)

    def forget(self) -> None:
        """Clears the state of the current game; the next game counts as another source of agents."""
        if self.game is not None:
            if self.game.delivered:
                self._context.tables.lose(self.game.source)
            self._former_peers.add(self.game.peer)
        self.game = None
        self.call = None
        self.arrivals = []
        self._must_reset = False

    def send_quit(self) -> None:
        """Answers a waiting request with the command to quit."""
        if self.call is not None:
            self.call.answer(encode.goodbye())
            self.call = None
            self.silence.enter(Phase.DOWN)


def introduces(incoming: GameMessage, *, connected: bool) -> bool:
    """Whether a message is a game's first message; later messages may describe new behaviors in the same field."""
    hello = incoming.hello
    return hello is not None and (bool(hello.communication_version) or not (connected or incoming.infos))
