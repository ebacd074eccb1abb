"""The service under load: 64 clients with mixed work on the loopback, for a minute unless told otherwise.

    python benchmarks/serve.py --seconds 600

Prints requests a second, latencies at the 50th and 99th percentile for each kind of work, and the memory of all its
processes (shared pages counted once) along the run. Every ten seconds a worker process is killed with signal 9: that
may cost the request it worked on, which must get an error, and nothing else. Exit code 1 if anything else is lost, or
if memory grew by more than a tenth between the second and the last fifth of the run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

KILL_EVERY = 10.0
SESSIONS, ASKING = 8, 6
"""How many sessions there are, and in how many of them queries are asked; the others change answers that they have."""
FORMULA = (Path(__file__).parent.parent / "examples" / "paper_100.dnf").read_text()
NETWORK = [["a", "b", 0.9], ["a", "c", 0.8], ["b", "c", 0.5], ["b", "d", 0.8], ["c", "d", 0.9]]
TREE = "top := (pump & valve) | power\np(pump) = 0.1\np(valve) = 0.2\np(power) = 0.01"
QUERY = "SELECT DISTINCT a.left_id, b.right_id FROM pair a JOIN pair b ON a.right_id = b.left_id"


class Connection:
    """A kept-alive HTTP/1.1 connection, with no more than the benchmark needs: a full client would cost as much
    processor time as the service itself."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: Any = None, stream: bool = False) -> tuple[int, bytes]:
        """(status, body) of one request."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        reader, writer = self.streams
        data = b"" if body is None else json.dumps(body).encode()
        accept = "text/event-stream" if stream else "*/*"
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {accept}\r\nContent-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            fields = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
            status = int(lines[0].split()[1])
            if "chunked" in fields.get("transfer-encoding", ""):
                return status, await _chunks(reader)
            return status, await reader.readexactly(int(fields.get("content-length", 0)))
        except (OSError, asyncio.IncompleteReadError):
            self.streams = None
            raise


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    out = b""
    while True:
        size = int(await reader.readline(), 16)
        out += (await reader.readexactly(size + 2))[:-2]
        if not size:
            return out


async def one(connection: Connection, session: str, run: str, chance: random.Random) -> tuple[str, int, str]:
    """(kind of work, status, what it said if it went wrong) of one request of the mixture."""
    kind = chance.choices(
        ["count", "formula", "network", "tree", "sql", "stream", "whatif", "rows", "page"], [4, 3, 2, 2, 3, 1, 4, 2, 3]
    )[0]
    seed = chance.randrange(10**6)
    path, method, body, stream = "/", "GET", None, False
    if kind == "count":
        path, method, body = "/api/count", "POST", {"formula": "a & b | ~c & d", "seed": seed}
    elif kind == "formula":
        path, method, body = "/api/count", "POST", {"formula": FORMULA, "format": "dnf", "seed": seed}
    elif kind == "network":
        path, method, body = "/api/network", "POST", {"edges": NETWORK, "source": "a", "target": "d"}
    elif kind == "tree":
        path, method, body = "/api/faulttree", "POST", {"text": TREE}
    elif kind in ("sql", "stream"):
        path, method, body, stream = f"{session}/sql", "POST", {"query": QUERY, "seed": seed}, kind == "stream"
    elif kind == "whatif":
        path, method, body = f"/api/runs/{run}/answers/0/whatif", "POST", {"prob": {}}
    elif kind == "rows":
        path = f"{session}/tables/person?limit=20"
    status, said = await connection.ask(method, path, body, stream)
    if stream and b"event: error" in said:
        error = json.loads(said.partition(b"event: error\ndata: ")[2].split(b"\n")[0])["error"]
        return kind, error["status"], error["message"]
    return kind, status, "" if status < 400 else said.decode(errors="replace")


async def load(port: int, clients: int, seconds: float, server: int) -> bool:
    """Runs the load and prints what came of it; whether all is as it should be."""
    first = Connection(port)
    sessions, runs = [], []
    for _ in range(SESSIONS):
        number = json.loads((await first.ask("POST", "/api/sessions"))[1])["session"]
        sessions.append(f"/api/sessions/{number}")
        await first.ask("POST", f"{sessions[-1]}/stories/linkage")
        runs.append(json.loads((await first.ask("POST", f"{sessions[-1]}/sql", {"query": QUERY, "seed": 1}))[1])["run"])
    times: dict[str, list[float]] = defaultdict(list)
    statuses: Counter[int] = Counter()
    wrong: Counter[str] = Counter()
    memory: list[float] = []
    killed = 0
    until = time.monotonic() + seconds

    async def client(number: int) -> None:
        chance, connection = random.Random(number), Connection(port)
        while time.monotonic() < until:
            place, kept = chance.randrange(ASKING), chance.randrange(ASKING, SESSIONS)
            started = time.perf_counter()
            try:
                kind, status, said = await one(connection, sessions[place], runs[kept], chance)
            except (OSError, asyncio.IncompleteReadError) as error:
                kind, status, said = "lost", 0, repr(error)
            times[kind].append(time.perf_counter() - started)
            statuses[status] += 1
            if status != 200:
                wrong[f"{status} {said[:160]}"] += 1

    async def watch() -> None:
        nonlocal killed
        next_kill = time.monotonic() + KILL_EVERY / 2
        while time.monotonic() < until:
            memory.append(sum(_shared_out(process) for process in family(server)))
            if time.monotonic() >= next_kill and time.monotonic() < until - 2:
                workers = family(server)[2:]
                if workers:
                    os.kill(random.choice(workers), signal.SIGKILL)
                    killed += 1
                next_kill += KILL_EVERY
            await asyncio.sleep(1.0)

    started, used = time.monotonic(), _processor_seconds(server)
    await asyncio.gather(watch(), *(client(number) for number in range(clients)))
    took, used = time.monotonic() - started, _processor_seconds(server) - used
    total = sum(statuses.values())
    print(
        f"{clients} clients, {took:.0f} s, {total:,} requests, {total / took:.0f} a second; statuses {dict(statuses)}"
    )
    print(f"the service used {used:.1f} s of processor time: {total / used:.0f} requests for each second of it")
    print(f"{'work':10} {'requests':>8} {'p50 ms':>8} {'p99 ms':>8}")
    every = sorted(value for values in times.values() for value in values)
    for kind, values in [*sorted(times.items()), ("all", every)]:
        ordered = sorted(values)
        p50, p99 = (1000 * ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in (0.5, 0.99))
        print(f"{kind:10} {len(values):8,} {p50:8.1f} {p99:8.1f}")
    fifth = max(1, len(memory) // 5)
    before, after = (sum(part) / len(part) for part in (memory[fifth : 2 * fifth] or memory, memory[-fifth:]))
    print(
        f"memory in MB: {before:.0f} in the second fifth of the run, {after:.0f} in the last, {max(memory):.0f} at most"
    )
    lost = sum(count for text, count in wrong.items() if not text.startswith("500 "))
    ended = sum(count for text, count in wrong.items() if text.startswith("500 "))
    print(f"killed {killed} workers: {ended} requests ended with an error that says so, {lost} others went wrong")
    for text, count in wrong.most_common(6):
        print(f"    {count} x {text}")
    health = (await Connection(port).ask("GET", "/health"))[0]
    return health == 200 and not lost and ended <= killed and after <= 1.1 * before + 20


def family(server: int) -> list[int]:
    """The process and all below it, parents first."""
    found = [server]
    for process in found:
        try:
            for task in Path(f"/proc/{process}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def _processor_seconds(server: int) -> float:
    """What the processes have used, with those that have ended and were waited for."""
    total = 0
    for process in family(server):
        try:
            total += sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]))
        except OSError:
            continue
    return total / os.sysconf("SC_CLK_TCK")


def _shared_out(process: int) -> float:
    """The memory of a process in MB, a shared page divided by the number of its users."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    command = [sys.executable, "-m", "sharpdnf.cli", "serve", "--port", "0", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline().split()[2].rstrip("/").rpartition(":")[2])
            fine = asyncio.run(load(port, asked.clients, asked.seconds, server.pid))
        finally:
            server.send_signal(signal.SIGTERM)
            code = server.wait(60)
    print(f"the service stopped with code {code}")
    sys.exit(0 if fine and code == 0 else 1)


if __name__ == "__main__":
    main()
