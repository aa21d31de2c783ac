# SPDX-License-Identifier: MIT
"""As much of ZooKeeper's protocol as a campaign needs: somebody who shares no code with
the library looks at the tree, and ends sessions of others. One request at a time; who is
not answered gets an OSError."""

import socket
import struct

CHILDREN, CLOSE = 8, -11
PATIENCE = 5
PASSWORD = 16


def password_of(session):
    """As the server makes it: sixteen bytes of java.util.Random."""
    step, mask = 0x5DEECE66D, (1 << 48) - 1
    seed = (session ^ 0xB3415C00 ^ step) & mask
    password = b""
    for _ in range(PASSWORD // 4):
        seed = (seed * step + 0xB) & mask
        password += struct.pack("<I", seed >> 16 & 0xFFFFFFFF)
    return password


def word(port, letters):
    """The answer to a four-letter word."""
    with socket.create_connection(("127.0.0.1", port), 1) as stream:
        stream.settimeout(1)
        stream.sendall(letters.encode())
        text = b""
        while piece := stream.recv(65536):
            text += piece
    return text.decode()


class Session:
    """A session of its own, or that of somebody else."""

    def __init__(self, port, session=0, lasts_ms=10000, patience=PATIENCE):
        self.stream = socket.create_connection(("127.0.0.1", port), patience)
        self.stream.settimeout(patience)
        self.xid = 0
        password = password_of(session) if session else bytes(PASSWORD)
        self.send(struct.pack(">iqiqi", 0, 0, lasts_ms, session, PASSWORD) + password
                  + b"\0")
        self.granted = struct.unpack_from(">ii", self.receive())[1] > 0

    def send(self, packet):
        self.stream.sendall(struct.pack(">i", len(packet)) + packet)

    def take(self, size):
        data = b""
        while len(data) < size:
            piece = self.stream.recv(size - len(data))
            if not piece:
                raise ConnectionError("the server hung up")
            data += piece
        return data

    def receive(self):
        return self.take(struct.unpack(">i", self.take(4))[0])

    def call(self, kind, body=b""):
        """The server's code and what follows it."""
        self.xid += 1
        self.send(struct.pack(">ii", self.xid, kind) + body)
        reply = self.receive()
        return struct.unpack_from(">i", reply, 12)[0], reply[16:]

    def children(self, path):
        """Names below a node; none if there is no such node."""
        text = path.encode()
        code, reply = self.call(CHILDREN, struct.pack(">i", len(text)) + text + b"\0")
        names, at = [], 4
        for _ in range(struct.unpack_from(">i", reply)[0] if code == 0 else 0):
            size = struct.unpack_from(">i", reply, at)[0]
            names.append(reply[at + 4:at + 4 + size].decode())
            at += 4 + size
        return names

    def walk(self, path):
        """Every node below, with its full path."""
        for name in self.children(path):
            below = f"{path}/{name}"
            yield below
            yield from self.walk(below)

    def close(self):
        """Ends the session, too."""
        self.call(CLOSE)
        self.stream.close()


def expire(port, session):
    """Ends a session as if its time had passed. Its connection stays open, and hears
    nothing any more: that is how the server does it."""
    stranger = Session(port, session)
    if stranger.granted:
        stranger.close()
