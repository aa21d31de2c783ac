# SPDX-License-Identifier: MIT
"""A tiny RESP2 client: enough to call a private server and to hear its messages."""

import socket


class Error(Exception):
    """An error reply; its text."""


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, *args):
        parts = [a if isinstance(a, bytes) else str(a).encode() for a in args]
        out = [b"*%d\r\n" % len(parts)]
        out += [b"$%d\r\n%s\r\n" % (len(p), p) for p in parts]
        self.socket.sendall(b"".join(out))

    def read(self):
        """One reply: int, str (or bytes), None, list. Raises an error reply."""
        reply = self._read()
        if isinstance(reply, Error):
            raise reply
        return reply

    def _read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server is gone")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"+":
            return rest
        if kind == b"-":
            return Error(rest)
        if kind == b":":
            return int(rest)
        count = int(rest)
        if count < 0:
            return None
        if kind == b"*":
            return [self._read() for _ in range(count)]
        data = self.file.read(count + 2)[:-2]
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return data

    def __call__(self, *args):
        self.send(*args)
        return self.read()


class Listener(Client):
    """A connection that only hears. `messages` waits for nothing: what a script
    published before its reply was read is here once a marker has come back."""

    def subscribe(self, *channels):
        for channel in channels:
            self.send("SUBSCRIBE", channel)
            self.read()

    def messages(self):
        self.send("PING", "marker")
        heard = []
        while True:
            reply = self.read()
            if reply[0] == "pong" and reply[1] == "marker":
                return heard
            heard.append((reply[1], reply[2]))
