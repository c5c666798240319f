"""gRPC's unary call over a bare socket: a client that takes a tenth of the processor time, for games that many run at
once.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

_DATA = 0
_HEADERS = 1
_SETTINGS = 4
_PING = 6
_GOAWAY = 7
_WINDOW = 8
_ACK = _END_STREAM = 1
_END_HEADERS = 4


def _text(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


_REQUEST = b"".join(
    (
        # HPACK's static entries (RFC 7541, appendix A): method POST, scheme http; then literals that enter no table
        b"\x83\x86",
        b"\x04" + _text(b"/communicator_objects.UnityToExternalProto/Exchange"),
        b"\x01" + _text(b"localhost"),
        b"\x0f\x10" + _text(b"application/grpc"),
        b"\x00" + _text(b"te") + _text(b"trailers"),
    )
)


class Wire:
    """One connection; messages of up to 16 KiB.

    Raises OSError when the trainer is gone, refuses the call or takes longer than `patience` seconds.
    """

    def __init__(self, port: int, address: str = "127.0.0.1", patience: float = 60.0) -> None:
        self._socket = socket.create_connection((address, port), timeout=patience)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0))
        self._stream = -1
        self._unread = b""
        self._taken = 0  # bytes of data that the trainer's window does not know of yet

    def exchange_bytes(self, raw: bytes) -> bytes:
        self._stream += 2
        request = _frame(_HEADERS, _END_HEADERS, self._stream, _REQUEST)
        if self._taken > 1 << 14:
            request = _frame(_WINDOW, 0, 0, struct.pack(">I", self._taken)) + request
            self._taken = 0
        self._socket.sendall(
            request + _frame(_DATA, _END_STREAM, self._stream, b"\0" + struct.pack(">I", len(raw)) + raw)
        )
        answer = b""
        while True:
            kind, flags, stream, payload = self._read()
            if kind == _DATA:
                answer += payload
                self._taken += len(payload)
            elif kind == _SETTINGS and not flags & _ACK:
                self._socket.sendall(_frame(_SETTINGS, _ACK, 0))
            elif kind == _PING and not flags & _ACK:
                self._socket.sendall(_frame(_PING, _ACK, 0, payload))
            elif kind == _GOAWAY:
                raise ConnectionError(f"the trainer goes away: {payload[8:]!r}")
            if stream == self._stream and kind in (_DATA, _HEADERS) and flags & _END_STREAM:
                break
        if not answer:
            raise ConnectionError("the trainer refused the call")
        return answer[5:]

    def quit(self, message: bytes) -> None:
        """Sends the last message; whatever comes back is ignored."""
        self._socket.settimeout(2)
        with suppress(OSError):
            self.exchange_bytes(message)

    def close(self) -> None:
        self._socket.close()

    def _read(self) -> tuple[int, int, int, bytes]:
        """The next frame: kind, flags, stream, payload."""
        head = self._take(9)
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        return kind, flags, stream, self._take(int.from_bytes(head[:3], "big"))

    def _take(self, size: int) -> bytes:
        while len(self._unread) < size:
            more = self._socket.recv(1 << 16)
            if not more:
                raise ConnectionError("the trainer closed the connection")
            self._unread += more
        taken = self._unread[:size]
        self._unread = self._unread[size:]
        return taken
