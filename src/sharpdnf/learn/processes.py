"""Several processes that train one network, on one machine or on several, as torchrun starts them.

Only the first process writes the run's folder, so the machines need not share a disk: when a run starts, the process
that knows most of it tells the others.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch

from sharpdnf.errors import SharpDNFError
from sharpdnf.files import write_atomically
from sharpdnf.learn.checkpoint import checkpoint_files, checkpoint_step

PATIENCE = timedelta(minutes=10)
"""How long a process waits for the others: longer than a validation, which the first process does alone."""


def process_group(device: str) -> tuple[int, int]:
    """(rank, number of processes): those of torchrun if it started us, else one process.

    The group is made once and serves every stage. If it were made anew for each, a process could read the address of an
    earlier group in the store and wait forever for a peer that has gone.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return 0, 1
    import torch.distributed as dist

    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.startswith("cuda") else "gloo", timeout=PATIENCE)
        atexit.register(dist.destroy_process_group)
    return dist.get_rank(), dist.get_world_size()


@contextlib.contextmanager
def shared_checkpoint(directory: Path, rank: int, world: int, device: str) -> Iterator[Path]:
    """A folder from which this process can load the run's checkpoint, if there is one.

    Machines have disks of their own, and the rendezvous may number them in another way than the last time. So the
    process whose folder knows the latest step tells all others; the first process keeps what it is told in its own
    folder, where the run goes on, the others only until they have read it. Otherwise some would begin at step 0 while
    others go on.
    """
    if world == 1:
        yield directory
        return
    steps: list[torch.Tensor] = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(world)]
    own = checkpoint_step(directory)
    torch.distributed.all_gather(steps, torch.tensor([own], dtype=torch.int64, device=device))
    known = [int(step) for step in steps]
    source = known.index(max(known))
    if known[source] < 0:
        yield directory
        return
    files = checkpoint_files(directory) if rank == source else {}
    names = _from(source, "\n".join(files).encode(), device).decode().split("\n")
    received = {name: _from(source, files.get(name, b""), device) for name in names}
    with tempfile.TemporaryDirectory(prefix="sharpdnf-") as temporary:
        folder = directory if own == known[source] or rank == 0 else Path(temporary)
        if own < known[source]:
            for name, data in received.items():
                write_atomically(folder / name, data)
        yield folder


def _from(source: int, data: bytes, device: str) -> bytes:
    """The bytes that process ``source`` passes; what the others pass does not matter."""
    length = torch.tensor([len(data)], dtype=torch.int64, device=device)
    torch.distributed.broadcast(length, source)
    content = torch.zeros(int(length), dtype=torch.uint8, device=device)
    if torch.distributed.get_rank() == source and data:
        content.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    torch.distributed.broadcast(content, source)
    return bytes(content.cpu().numpy())


def send_weights(module: torch.nn.Module) -> None:
    """Gives the weights of the first process's module to those of the others."""
    for tensor in module.state_dict().values():
        torch.distributed.broadcast(tensor, 0)


def lost_a_peer(error: RuntimeError, world: int) -> bool:
    """Whether an error of torch means that another process of the run has gone or does not answer."""
    if world == 1:
        return False
    words = ("closed by peer", "reset by peer", "connect failure", "timed out waiting", "gloo")
    return isinstance(error, torch.distributed.DistError) or any(word in str(error).lower() for word in words)


def peer_is_gone(step: int) -> SharpDNFError:
    return SharpDNFError(
        f"another process of this run has gone, at step {step}: start the same command on every machine again, and the "
        "run goes on from what the first process has saved"
    )
