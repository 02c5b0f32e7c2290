# SPDX-License-Identifier: Apache-2.0
"""Shards on Ray: workers, each of which computes one shard after another, and what happens when one dies.

A shard may be run twice: what it makes is there whole or not at all, and has the same bytes whoever computed it
(docs/cluster.md). So all that is done here is to run each until it has ended once."""
from __future__ import annotations

import contextlib
import os
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._call import ArgumentError, Error

# A shard that has ended this many workers is not given to another one.
MOST_DEATHS = 5
SHARDS_PER_WORKER = 4
# Of launchers: they say which part of a job a process is, and here Ray says it.
LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "TORCHELASTIC_")


@dataclass(frozen=True)
class Plan:
    """What is run where."""

    output: str  # absolute: the same folder for all
    workers: int
    shards: int
    cpus: float  # of each worker
    gpus: float


class Worker:
    """An actor. `make` gives what computes a shard: compute(i, n)."""

    def __init__(self, make: Callable[[], Callable[[int, int], Any]], mark: str) -> None:
        for name in [n for n in os.environ if n.startswith(LAUNCHERS)]:
            del os.environ[name]
        self.mark = mark
        self.make = make
        self.compute: Callable[[int, int], Any] | None = None

    def look(self) -> tuple[str, bool]:
        """This machine's name, and whether it sees the mark."""
        return os.uname().nodename, Path(self.mark).exists()

    def run(self, index: int, count: int) -> Any:
        if self.compute is None:
            self.compute = self.make()
        return self.compute(index, count)


def _leave_mark(mark: str) -> None:
    Path(mark).parent.mkdir(parents=True, exist_ok=True)
    Path(mark).touch()


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _remove_mark(mark: str) -> None:
    Path(mark).unlink(missing_ok=True)


def need_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ImportError("qkscope.ray needs Ray: pip install ray") from None
    return ray


@contextlib.contextmanager
def cluster(address: str | None, slots: int | None, cpus: float) -> Iterator[Any]:
    """Ray, as it is if the program has begun it, else the cluster at the address, else one on this machine, which ends
    with the `with`."""
    ray = need_ray()
    if ray.is_initialized():
        yield ray
        return
    own = address is None and not os.environ.get("RAY_ADDRESS")
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "ERROR"}
    if own:
        processors = len(os.sched_getaffinity(0))
        options.update(address="local", include_dashboard=False,
                       num_cpus=max(processors, round((slots or 0) * cpus + 0.5)))
    ray.init(**options)
    try:
        yield ray
    finally:
        ray.shutdown()


def plan_of(ray: Any, output: str, workers: int | None, shards: int | None, cpus: float, gpus: float | None,
            most_shards: int) -> Plan:
    there = ray.cluster_resources()
    if gpus is None:
        gpus = 1 if there.get("GPU", 0) >= 1 else 0
    if workers is None:
        slots = [int(there.get(name, 0) / need) for name, need in (("GPU", gpus), ("CPU", cpus)) if need > 0]
        workers = min(slots, default=1)
        if workers < 1:
            raise ArgumentError(f"no worker has room: each needs {cpus:g} CPUs and {gpus:g} GPUs, and Ray has "
                                f"{there.get('CPU', 0):g} and {there.get('GPU', 0):g}; give cpus= and gpus=")
    if workers < 1:
        raise ArgumentError(f"workers={workers}: at least one is needed")
    if shards is None:
        shards = min(most_shards, workers * SHARDS_PER_WORKER)
    if shards < 1:
        raise ArgumentError(f"shards={shards}: at least one is needed")
    return Plan(output, min(workers, shards), shards, cpus, gpus)


class Pool:
    """Workers of one run. `make` is called in each before its first shard."""

    def __init__(self, ray: Any, plan: Plan, make: Callable[[], Callable[[int, int], Any]],
                 shown: Any) -> None:
        self.ray, self.plan, self.make, self.shown = ray, plan, make, shown
        parent, name = os.path.split(plan.output)
        self.mark = os.path.join(parent, f".{name}.ray-{uuid.uuid4().hex[:12]}")
        self.actor = ray.remote(num_cpus=plan.cpus, num_gpus=plan.gpus, max_restarts=0)(Worker)
        self.waiting = deque(range(plan.shards))
        self.deaths = [0] * plan.shards
        self.busy: dict[Any, tuple[Any, int | None]] = {}  # what is awaited -> worker, its shard or None: it starts
        self.lost = 0
        said = ray.exceptions
        # The last one is of Ray's own, which ends workers before the system does.
        self.dead = (said.RayActorError, said.WorkerCrashedError, said.OutOfMemoryError)

    def start(self) -> None:
        worker = self.actor.remote(self.make, self.mark)
        self.busy[worker.look.remote()] = worker, None

    def give(self, worker: Any) -> None:
        if self.waiting:
            shard = self.waiting.popleft()
            self.busy[worker.run.remote(shard, self.plan.shards)] = worker, shard
        else:
            self.ray.kill(worker)

    def check(self, look: tuple[str, bool]) -> None:
        if not look[1]:
            raise ArgumentError(
                f"{self.plan.output}: the machine {look[0]} does not see the folder that this one writes to; give a "
                "folder that all machines of the cluster share, and that has the same name on each")

    def bury(self, worker: Any, shard: int | None, error: Exception) -> None:
        """Another worker takes the place of one that died, and its shard waits again."""
        with contextlib.suppress(Exception):
            self.ray.kill(worker)
        self.lost += 1
        if shard is None:
            if self.lost > MOST_DEATHS * self.plan.workers:
                raise Error(f"{self.lost} workers died, the last one before its first shard: {error}") from error
        else:
            self.deaths[shard] += 1
            if self.deaths[shard] >= MOST_DEATHS:
                raise Error(f"shard {shard} of {self.plan.shards} has ended {MOST_DEATHS} workers; what is finished "
                            f"stays, and the same call goes on. The last one said: {error}") from error
            self.waiting.append(shard)
            self.shown.tell([f"a worker died while it computed shard {shard} of {self.plan.shards}; another one goes "
                             "on with it"])
        self.start()

    def get(self, awaited: Any) -> Any:
        """What a call gave; what it raised is raised here, without Ray's own words around it."""
        try:
            return self.ray.get(awaited)
        except self.ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, Exception) else error) from None

    def elsewhere(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls it on a machine of the cluster."""
        task = self.ray.remote(num_cpus=0, max_retries=MOST_DEATHS)(_call)
        return self.get(task.remote(function, *arguments))

    def results(self) -> Iterator[Any]:
        """What each shard gave, as they end."""
        done = 0
        for _ in range(self.plan.workers):
            self.start()
        self.shown.show(0, self.plan.shards)
        while done < self.plan.shards:
            ready, _ = self.ray.wait(list(self.busy))
            worker, shard = self.busy.pop(ready[0])
            try:
                result = self.get(ready[0])
            except self.dead as error:
                self.bury(worker, shard, error)
                continue
            if shard is None:
                self.check(result)
            else:
                done += 1
                self.shown.show(done, self.plan.shards)
                yield result
            self.give(worker)

    def __enter__(self) -> Pool:
        self.mark_with(_leave_mark)
        return self

    def mark_with(self, function: Callable[[str], None]) -> None:
        if self.ray.util.client.ray.is_connected():  # this machine is none of the cluster's
            self.elsewhere(function, self.mark)
        else:
            function(self.mark)

    def __exit__(self, *_: object) -> None:
        for worker, _shard in self.busy.values():
            with contextlib.suppress(Exception):
                self.ray.kill(worker)
        self.busy.clear()
        with contextlib.suppress(Exception):
            self.mark_with(_remove_mark)
