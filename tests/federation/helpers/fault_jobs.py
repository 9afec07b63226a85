"""What the fault tests do in processes of their own, so that those can be killed for real.

Run as a program it is a nursery: it imports the library once and then forks a child for each job it is told, which is
quick. A child does its job, says what came out on its line (a socket), and ends, or is killed on the way:

    kill_at     SIGKILL at this event (a call or return of any function, C functions too, in the library's federation)
    kill_query  SIGKILL in the objective: this query has been paid for and written to the objective's own log
    limit       no file may become larger than this: what a full disk looks like to a program
"""

import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path

import numpy as np
import scipy

import fzoos.federation
from fzoos.algorithms import ALGORITHMS
from fzoos.engines import LocalStudy
from fzoos.federation.exchange import Outcome
from fzoos.federation.journal import Journal
from fzoos.federation.site import StudySite
from fzoos.federation.snapshot import SnapshotFile
from fzoos.federation.study import Study
from fzoos.federation.study_run import run_study
from fzoos.messages.codec import decode, encode
from fzoos.testing import as_table, make_quick

LOADED = scipy.fft, scipy.linalg, scipy.optimize  # here, once: not by each child that is forked

TABLES = {name: as_table(make_quick(cls())) for name, cls in ALGORITHMS.items()} | {
    "fzoos": {
        "name": "fzoos",
        "local_steps": 2,
        "features": 16,
        "initial": 3,
        "active": {"candidates": 4, "picks": 1, "radius": 0.05},
        "refresh": {"candidates": 4, "picks": 2},
    }
}
"""Every algorithm that there is, made quick."""

CENTRES = (0.2, -0.4, 0.6)


def make_study(algorithm="fzoos", sites=("a", "b"), table=None, **changes):
    """A study that costs next to nothing: d = 2, T = 2, three rounds, further settings of the algorithm in `table`.

    Sites of one called "constrained" have some.
    """
    settings = {"name": "demo", "x0": 0.5, "dim": 2, "bounds": (-1.0, 1.0), "rounds": 3, "retries": 0} | changes
    return Study(sites=sites, algorithm=TABLES[algorithm] | (table or {}), **settings)


class Box:
    """A site's black box with a log of its own: every query is on the disk before its value is out."""

    def __init__(self, centre, log=None, kill_query=None, constrained=False):
        self._centre, self._log, self._kill_query, self._constrained = centre, log, kill_query, constrained
        self.count = 0

    def __call__(self, x):
        y = np.sum((x - self._centre) ** 2, axis=-1)
        self.count += 1
        if self._log is not None:
            with open(self._log, "ab") as file:
                for point in np.atleast_2d(x):
                    file.write(point.astype("<f8").tobytes())
                file.flush()
                os.fsync(file.fileno())
        if self.count == self._kill_query:
            os.kill(os.getpid(), signal.SIGKILL)
        if self._constrained:
            return float(y), [float(x.sum()) + self._centre, -0.9 - float(x[0])]
        return y if y.ndim else float(y)


def boxes(study, folder, kill_query=None):
    """One for each site; the queries of all of them together are counted for the kill."""
    made = [
        Box(CENTRES[i], Path(folder) / f"{site}.log", constrained=study.name == "constrained")
        for i, site in enumerate(study.sites)
    ]
    if kill_query is None:
        return made
    total = [0]

    def counted(box):
        def objective(x):
            total[0] += 1
            box._kill_query = box.count + 1 if total[0] == kill_query else None
            return box(x)

        return objective

    return [counted(box) for box in made]


def logged(folder, site, dim=2):
    """The points in the log of a site's objective."""
    path = Path(folder) / f"{site}.log"
    return np.frombuffer(path.read_bytes() if path.exists() else b"", "<f8").reshape(-1, dim)


# The jobs. What they return goes to the test as JSON.


def study(line, folder, settings, kill_query=None, **run):
    """A whole study."""
    made = make_study(**settings)
    result = LocalStudy(made, folder, boxes(made, folder, kill_query), site_seed=made.seed).run(**run)
    return {"x": result.x.tobytes().hex(), "status": result.status, "message": result.message}


def site(line, folder, settings, client, kill_query=None):
    """A site that answers what comes on its line."""
    made = make_study(**settings)
    name = made.sites[client]
    box = Box(CENTRES[client], Path(folder) / f"{name}.log", kill_query)
    with StudySite(made, client, box, Path(folder) / f"{name}.journal", wait=5.0, site_seed=made.seed) as site:
        while (data := receive(line)) is not None:
            send(line, site.answer(data))


def server(line, folder, settings, **run):
    """A server whose sites are at the other end of the line."""
    made = make_study(**settings)
    result = run_study(made, Line(made, line), Path(folder) / "result.db", **run)
    return {"x": result.x.tobytes().hex(), "status": result.status, "message": result.message}


def keep(line, folder, settings, request, moment):
    """A site that answers one request, and is killed at this event in the writing of its snapshot; None: at none."""
    made, seen = make_study(**settings), [0]

    def on_event(frame, event, arg):
        seen[0] += frame.f_code is SnapshotFile.write.__code__
        if seen[0] == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    path, seed = Path(folder) / f"{made.sites[0]}.journal", made.seed
    with StudySite(made, 0, Box(CENTRES[0]), path, site_seed=seed, snapshots=True) as site:
        sys.setprofile(on_event)
        site.answer(bytes.fromhex(request))
        sys.setprofile(None)
    return {"seen": seen[0]}


def hold(line, path, fork=False):
    """A journal held until the line is closed; with `fork`, a child of the process says so, and outlives it."""
    journal = Journal(path, "study", "site")
    if fork and os.fork():
        signal.pause()
    send(line, b"held")
    receive(line)
    os._exit(int(journal.count))


def fill(line, path, rows):
    """A journal that is killed with everything still in its write-ahead log."""
    journal = Journal(path, "study", "site")
    fill_journal(journal, rows)
    os.kill(os.getpid(), signal.SIGKILL)


def fill_journal(journal, rows=3):
    """Requests with two queries each, one of which failed, and their replies."""
    rng = np.random.default_rng(rows)
    for i in range(rows):
        request = journal.begin(b"request %d" % i)
        journal.record(request, rng.normal(size=(2, 2)), rng.normal(size=2), i, 1, "query")
        journal.record(request, rng.normal(size=(1, 2)), None, i, 2, "difference", error="it raised")
        journal.reply(request, b"reply %d" % i, {"state": {"inc": i}})


JOBS = {job.__name__: job for job in (study, site, server, keep, hold, fill)}


class Line:
    """An engine: all sites are at the other end of one line."""

    def __init__(self, study, line):
        self._study, self._line = study, line

    def exchange(self, requests, timeout):
        outcome = Outcome()
        for client, request in requests.items():
            send(self._line, bytes([client]) + encode(request, self._study.id))
            data = receive(self._line)
            try:
                outcome.replies[client] = decode(data, self._study.id)
            except (ValueError, RuntimeError) as error:
                outcome.failures[client] = error
        return outcome


def send(line, data):
    line.sendall(len(data).to_bytes(4, "little") + data)


def receive(line):
    """One message; None when the other end is gone."""
    head = _exactly(line, 4)
    return None if head is None else _exactly(line, int.from_bytes(head, "little"))


def _exactly(line, count):
    parts = b""
    while len(parts) < count:
        try:
            more = line.recv(count - len(parts))
        except ConnectionResetError:
            return None
        if not more:
            return None
        parts += more
    return parts


def kill_at(moment):
    """SIGKILL at the n-th event in the federation's code; None counts only."""
    folder = str(Path(fzoos.federation.__file__).parent.parent)
    watched = {f"{folder}/federation", f"{folder}/runs/store.py", f"{folder}/objectives/evaluator.py", __file__}
    assert all(os.path.exists(path) for path in watched)
    seen = [0]

    def on_event(frame, event, arg):
        name = frame.f_code.co_filename
        if name in watched or os.path.dirname(name) in watched:
            seen[0] += 1
            if seen[0] == moment:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(on_event)
    return seen


def do(line, job):
    if job.get("limit"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["limit"], resource.RLIM_INFINITY))
    seen = kill_at(job["kill_at"]) if "kill_at" in job else [0]
    try:
        result = JOBS[job["job"]](line, **job["with"]) or {}
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    sys.setprofile(None)
    send(line, json.dumps({**result, "events": seen[0]}).encode())


def nursery(orders):
    while True:
        text, fds, _, _ = socket.recv_fds(orders, 65536, 1)
        if not text:
            return
        job = json.loads(text)
        if "wait" in job:
            _, status = os.waitpid(job["wait"], 0)
            orders.sendall(json.dumps(os.waitstatus_to_exitcode(status)).encode())
            continue
        pid = os.fork()
        if pid == 0:
            orders.close()
            do(socket.socket(fileno=fds[0]), job)
            os._exit(0)
        os.close(fds[0])
        orders.sendall(json.dumps(pid).encode())


if __name__ == "__main__":
    nursery(socket.socket(fileno=int(sys.argv[1])))
