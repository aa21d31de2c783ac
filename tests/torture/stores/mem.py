# SPDX-License-Identifier: MIT
"""mem: one process, many threads, half of them with clients of their own, all behind
the fault shim, which loses and delays what the store says."""

from workers import Spec

from .base import Store


class Mem(Store):
    name = "mem"
    extra = ["--residue"]

    def specs(self):
        return [Spec("fault+mem:torture", threads=14, share=6, ttl=600, clock=True,
                     shim=True)]
