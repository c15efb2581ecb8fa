# SPDX-License-Identifier: Apache-2.0
"""A small NBD client: fixed newstyle, simple replies, many requests in flight. Standard library only.

It exists so that a test knows exactly which writes were acknowledged before a connection broke:
no library between the test and the socket retries, caches or reorders.
"""
import socket
import struct
import threading
import urllib.parse

NBDMAGIC = 0x4E42444D41474943
IHAVEOPT = 0x49484156454F5054
REPLY_MAGIC = 0x3E889045565A9
REQUEST_MAGIC = 0x25609513
SIMPLE_REPLY_MAGIC = 0x67446698
OPT_GO = 7
REP_ACK = 1
REP_INFO = 3
READ, WRITE, DISCONNECT, FLUSH, TRIM = 0, 1, 2, 3, 4
FIXED_NEWSTYLE, NO_ZEROES = 1, 2


class Broken(Exception):
    """The connection ended: requests without an answer may or may not have happened."""


class Refused(Exception):
    """The server answered, and the answer is no."""


def parse(uri):
    """(family, address, export) of an NBD URI over a Unix socket or TCP."""
    parts = urllib.parse.urlsplit(uri)
    export = urllib.parse.unquote(parts.path.lstrip("/"))
    if parts.scheme == "nbd+unix":
        path = urllib.parse.parse_qs(parts.query)["socket"][0]
        return socket.AF_UNIX, path, export
    if parts.scheme == "nbd":
        family = socket.AF_INET6 if ":" in (parts.hostname or "") else socket.AF_INET
        return family, (parts.hostname, parts.port or 10809), export
    raise ValueError(f"not an NBD URI that this client knows: {uri}")


class Client:
    """One connection. `submit` may be called by one thread; answers arrive in another."""

    def __init__(self, uri, on_done, seconds=10.0):
        """`on_done(token, error, payload)` for each answer: error 0 is success."""
        family, address, export = parse(uri)
        self.on_done = on_done
        self.reads = {}
        self.lock = threading.Lock()
        self.error = None
        self.next = 1
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(seconds)
        try:
            self.socket.connect(address)
            self.size = self.handshake(export.encode())
        except OSError as error:
            raise Broken(str(error)) from error
        self.socket.settimeout(None)
        self.receiver = threading.Thread(target=self.receive, daemon=True)
        self.receiver.start()

    def exactly(self, count):
        chunks = bytearray()
        while len(chunks) < count:
            chunk = self.socket.recv(count - len(chunks))
            if not chunk:
                raise Broken("connection closed")
            chunks += chunk
        return bytes(chunks)

    def handshake(self, export):
        magic, option_magic, flags = struct.unpack(">QQH", self.exactly(18))
        if (magic, option_magic) != (NBDMAGIC, IHAVEOPT) or not flags & FIXED_NEWSTYLE:
            raise Refused("not a fixed newstyle NBD server")
        body = struct.pack(">I", len(export)) + export + struct.pack(">H", 0)
        hello = struct.pack(">I", flags & (FIXED_NEWSTYLE | NO_ZEROES))
        self.socket.sendall(hello + struct.pack(">QII", IHAVEOPT, OPT_GO, len(body)) + body)
        size = None
        while True:
            magic, _, kind, length = struct.unpack(">QIII", self.exactly(20))
            data = self.exactly(length)
            if magic != REPLY_MAGIC:
                raise Refused("malformed option reply")
            if kind == REP_INFO and data[:2] == b"\0\0":
                size = struct.unpack(">Q", data[2:10])[0]
            elif kind == REP_ACK and size is not None:
                return size
            elif kind & 0x80000000:
                raise Refused(data.decode(errors="replace") or f"option reply {kind:#x}")

    def submit(self, kind, offset, length, payload=b""):
        """Sends one request; returns its token. Raises Broken when the connection is gone."""
        with self.lock:
            token = self.next
            self.next += 1
            if kind == READ:
                self.reads[token] = length
        header = struct.pack(">IHHQQI", REQUEST_MAGIC, 0, kind, token, offset, length)
        try:
            self.socket.sendall(header + payload)
        except OSError as error:
            raise Broken(str(error)) from error
        return token

    def receive(self):
        try:
            while True:
                magic, error, token = struct.unpack(">IIQ", self.exactly(16))
                if magic != SIMPLE_REPLY_MAGIC:
                    raise Broken(f"malformed reply {magic:#x}")
                with self.lock:
                    length = self.reads.pop(token, 0)
                payload = self.exactly(length) if length and not error else b""
                self.on_done(token, error, payload)
        except (Broken, OSError) as error:
            self.error = str(error)
            self.on_done(None, -1, b"")

    def close(self):
        """Says goodbye; what is still in flight is completed by the server first."""
        try:
            self.submit(DISCONNECT, 0, 0)
        except Broken:
            pass
        self.receiver.join(timeout=10)
        self.socket.close()
