"""The service ``sharpdnf serve``: a JSON API and a page over counting, SQL, networks and fault trees.

The process that listens (``server.py``, ``app.py``) computes nothing and parses nothing that strangers sent but JSON.
Work is done by processes of its own (``worker.py``) that can be ended, each under limits of time and memory
(``pool.py``). What belongs to a visitor, tables and runs, belongs to a session (``sessions.py``).
"""
