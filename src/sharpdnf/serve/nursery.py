"""The process from which workers are forked: it has loaded all libraries and does nothing else.

A fresh interpreter needs a second to load the libraries, a fork a few milliseconds, and what was loaded is shared. The
service sends ``fork`` with a socket, which becomes standard input and output of the new process, and hears its number;
``reap N`` waits for a process that was killed, and tells how it ended. Until then nobody else can have its number.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket


def serve() -> None:
    """Answers on standard input, which is a socket, until it is closed."""
    control = socket.socket(fileno=os.dup(0))
    _load()
    control.sendall(b"ready\n")
    while True:
        message, files, _, _ = socket.recv_fds(control, 64, 1)
        if not message:
            os._exit(0)
        word, _, number = message.decode().strip().partition(" ")
        if word == "fork" and len(files) == 1:
            child = os.fork()
            if child == 0:
                control.close()
                _become_worker(files[0])
            os.close(files[0])
            control.sendall(b"forked %d\n" % child)
        elif word == "reap":
            control.sendall(b"reaped %d\n" % _ended(int(number)))


def _load() -> None:
    """Imports what workers need; what was made so far is not looked at again, so that its memory stays shared."""
    import pyarrow.csv
    import pyarrow.parquet  # noqa: F401

    import sharpdnf.serve.worker
    import sharpdnf.sql.whatif  # noqa: F401

    with contextlib.suppress(ImportError):
        import pandas  # noqa: F401 - the database would load it with the first table

    gc.collect()
    gc.freeze()


def _become_worker(file: int) -> None:
    from sharpdnf.serve import worker

    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for standard in (0, 1):
            os.dup2(file, standard)
        os.close(file)
        worker.serve()
    finally:
        os._exit(1)


def _ended(child: int) -> int:
    """How a process ended, as ``subprocess`` says it: its code, or the signal as a negative number."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except ChildProcessError:
        return 0
