"""Bulk work: the same results from one process, from loky, from dask and from Ray; a worker that dies is replaced."""

import os
import signal
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import sharpdnf
from sharpdnf.bulk import backend_chosen, in_any_order, num_workers
from sharpdnf.errors import SharpDNFError
from sharpdnf.generate import UniformSpec, uniform

joblib = pytest.importorskip("joblib")


def square(number):
    return number * number, os.getpid()


def die_once(mark: Path, number):
    """Kills its own process the first time that it is asked about 3, and answers from then on."""
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die(number):
    os.kill(os.getpid(), signal.SIGKILL)


def fail(number):
    raise ValueError(f"about {number}")


def test_one_worker_works_in_this_process():
    found = list(in_any_order(square, range(4), workers=1))
    assert found == [(i, (i * i, os.getpid())) for i in range(4)]


def test_several_workers_are_other_processes_and_give_the_same():
    found = dict(in_any_order(square, range(20), workers=2))
    assert {place: value for place, (value, _) in found.items()} == {i: i * i for i in range(20)}
    assert os.getpid() not in {process for _, process in found.values()}


def test_work_of_a_worker_that_dies_is_done_by_another(tmp_path):
    assert dict(in_any_order(partial(die_once, tmp_path / "died"), range(8), workers=2)) == {i: i for i in range(8)}
    assert (tmp_path / "died").exists()


def test_work_that_kills_every_worker_is_an_error_in_the_end():
    with pytest.raises(SharpDNFError, match="workers died 3 times in a row before one of 4 pieces"):
        list(in_any_order(die, range(4), workers=2))


def test_an_error_of_the_work_is_raised_here():
    with pytest.raises(ValueError, match="about"):
        list(in_any_order(fail, range(4), workers=2))


def test_a_backend_is_chosen_only_inside_of_a_context():
    assert not backend_chosen()
    with joblib.parallel_config(backend="loky"):
        assert backend_chosen()
    with joblib.parallel_config(n_jobs=2):
        assert backend_chosen()
        assert num_workers() == 2
    assert not backend_chosen()
    assert num_workers(5) == 5


def formulas():
    rng = np.random.default_rng(3)
    shapes = ((12, 8, 3), (40, 60, 4), (200, 150, 5), (30, 300, 6))
    return [uniform(UniformSpec(*shapes[i % 4]), rng) for i in range(40)]


def counted(**options):
    return sharpdnf.count_many(formulas(), rng=7, **options)


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("options", [{}, {"engine": "sampling", "epsilon": 0.3}, {"engine": "klm", "epsilon": 0.5}])
def test_count_many_gives_the_same_from_workers(options):
    here = counted(**options)
    for workers in (2, 3):
        with joblib.parallel_config(backend="loky", n_jobs=workers):
            assert same(counted(**options), here)


def test_the_time_limit_holds_in_workers():
    with joblib.parallel_config(backend="loky", n_jobs=2):
        late = counted(engine="klm", epsilon=0.01, timeout=0.0)
    assert not late["met"].all()
    close = counted(epsilon=0.05, delta=1e-9)
    assert np.all(late["certified_lower"] <= close["upper"])
    assert np.all(late["certified_upper"] >= close["lower"])


@contextmanager
def dask_workers():
    """Two workers of dask.distributed, as the chosen backend."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client, joblib.parallel_config(backend="dask"):
        yield
        client.wait_for_workers(2)


@contextmanager
def ray_workers():
    """Two workers of Ray, as the chosen backend."""
    ray = pytest.importorskip("ray")
    from ray.util.joblib import register_ray

    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", runtime_env={"env_vars": dict(PYTHONPATH)})
    try:
        register_ray()
        with joblib.parallel_config(backend="ray", n_jobs=2):
            yield
    finally:
        ray.shutdown()


@pytest.mark.parametrize("workers", [dask_workers, ray_workers])
def test_other_backends_give_the_same_and_replace_a_worker_that_dies(workers, tmp_path):
    """Formulas and worlds, with progress; then a worker is killed in the middle of its work."""
    with workers():
        assert num_workers() == 2
        assert same(counted(), counted_here())
        seen = []
        assert worlds(progress=lambda *done: seen.append(done)) == worlds_here()
        assert seen[-1][0] == seen[-1][1] and len(seen) > 1
        died = tmp_path / "died"
        found = dict(in_any_order(partial(die_once, died), range(8)))
        assert died.exists() and found == {i: i for i in range(8)}


PYTHONPATH = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def worlds(**asked):
    """Probabilities of a query that is answered by playing worlds."""
    db = sharpdnf.connect()
    db.register("e", {"a": list(range(20)), "p": [0.3] * 20}, prob="p")
    return (
        db.sql("SELECT a, row_number() OVER (ORDER BY a) AS n FROM e", rng=3, epsilon=0.1, **asked).arrow().to_pydict()
    )


def here(work):
    """What a function gives in a thread that has no backend."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def counted_here():
    return here(counted)


def worlds_here():
    return here(worlds)
