# SPDX-License-Identifier: MIT
"""The pulse of a server: asks it every few milliseconds, and writes down when the answer
was late (history.STALL, of kind 1: nobody could have been served). A worker has one of
its own, worker_pulse.c. Where a server is away on purpose a fault says so as well."""

import threading

import history

BEAT = 0.02  # seconds between two questions
LATE_NS = 10 ** 7


class Pulse:
    """`connect` gives a connection that has ask() and close(); what they raise is an
    OSError. A question that is not answered is part of the stall."""

    def __init__(self, writer, connect):
        self.writer, self.connect = writer, connect
        self.connection = None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        last = history.now()
        while not self.ended.wait(BEAT):
            if not self.answered():
                continue
            due, last = last + int(BEAT * 1e9), history.now()
            if last > due + LATE_NS:
                self.writer.add(history.STALL, t_ns=last, value=due, kind=1)
        self.hang_up()

    def answered(self):
        try:
            self.connection = self.connection or self.connect()
            self.connection.ask()
            return True
        except OSError:
            self.hang_up()
            return False

    def hang_up(self):
        try:
            if self.connection:
                self.connection.close()
        except OSError:
            pass  # it was broken
        self.connection = None

    def stop(self):
        self.ended.set()
        self.thread.join()
