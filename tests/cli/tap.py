# SPDX-License-Identifier: MIT
"""TAP for the tests of the command: ok(), skip(), comment(), done()."""

import atexit
import os
import sys

_count = 0
_failed = 0
_finished = False


def comment(text):
    """Lines for the reader of the log: what a user would see."""
    for line in str(text).splitlines() or [""]:
        print("#", line.encode("unicode_escape").decode("ascii"))
    sys.stdout.flush()


def ok(passed, what, details=""):
    """One check. `details` are shown when it fails. Answers whether it passed."""
    global _count, _failed
    _count += 1
    print(f"{'ok' if passed else 'not ok'} {_count} - {what}", flush=True)
    if not passed:
        _failed += 1
        comment(details)
    return bool(passed)


def skip(what, why):
    """A check that cannot be made here."""
    global _count
    _count += 1
    print(f"ok {_count} - {what} # SKIP {why}", flush=True)


def done():
    """The plan; the last call of a test program."""
    global _finished
    _finished = True
    print(f"1..{_count}", flush=True)
    sys.exit(1 if _failed else 0)


@atexit.register
def _unfinished():
    if not _finished:
        print("Bail out! the test ended early", flush=True)
        os._exit(1)
