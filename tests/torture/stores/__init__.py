# SPDX-License-Identifier: MIT
"""The stores that can be tortured. One more: a module with a class, a line here."""

from .file import File, Flock
from .mem import Mem
from .redis import Redis, RedisSimple
from .zookeeper import ZooKeeper

ALL = {store.name: store
       for store in (Mem, File, Flock, Redis, RedisSimple, ZooKeeper)}
