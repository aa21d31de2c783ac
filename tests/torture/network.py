# SPDX-License-Identifier: MIT
"""A private network, and what can be cut in it: nftables on the loopback of a network
namespace. Workers know the server by addresses of their own; `there` is the way of
their requests, `back` that of the replies."""

import subprocess

RULES = """
table ip torture {
    set there { type ipv4_addr; }
    set back { type ipv4_addr; }
    chain everybody { }
    chain input {
        type filter hook input priority 0;
        jump everybody
        tcp dport %(port)d ip daddr @there drop
        tcp sport %(port)d ip saddr @back drop
    }
}
"""


def run(*words):
    subprocess.run(words, check=True)


class Network:
    def __init__(self, port):
        self.port = port
        subprocess.run(["nft", "-f", "-"], input=RULES % {"port": port}, text=True,
                       check=True)

    def cut(self, direction, address):
        run("nft", "add", "element", "ip", "torture", direction, "{ %s }" % address)

    def mend(self, direction, address):
        run("nft", "delete", "element", "ip", "torture", direction, "{ %s }" % address)

    def _all(self, verdict):
        for side in ("dport", "sport"):
            run("nft", "add", "rule", "ip", "torture", "everybody", "tcp", side,
                str(self.port), *verdict)

    def _none(self):
        run("nft", "flush", "chain", "ip", "torture", "everybody")

    def cut_all(self, on):
        self._all(["drop"]) if on else self._none()

    def lose(self, on):
        self._all(["numgen", "random", "mod", "3", "0", "drop"]) if on else self._none()
