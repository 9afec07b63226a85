"""A study in one process, and what others see of it meanwhile."""

import threading
import time
from dataclasses import replace

from fault_jobs import CENTRES, Box, make_study
from study_runs import THREE, failures

import fzoos
from fzoos.engines import LocalStudy
from fzoos.runs.store import StoreError


def test_a_site_that_hangs(folder):
    """Not waited for beyond the time-out; when the run ends it makes no further query, and it can be taken up again."""
    study = make_study("fedzo", sites=THREE, min_clients=2, timeout=0.3, rounds=2)
    release = threading.Event()

    class Hanging(Box):
        def __call__(self, x):
            release.wait()
            time.sleep(0.2)
            return super().__call__(x)

    hanging = Hanging(CENTRES[2])
    boxes = [Box(CENTRES[0]), Box(CENTRES[1]), hanging]
    result = LocalStudy(study, folder, boxes, workers=3).run(callback=lambda r: r.round == 2 and release.set())
    assert result.status == "completed"
    assert result.queries_per_client == (12, 12, 0)
    reasons = [reason for _, client, reason in failures(folder) if client == 2]
    assert reasons == ["c: no answer within 0.3 s", "c: still busy with an earlier request"]
    assert hanging.count < 6
    boxes[2] = Box(CENTRES[2])
    more = LocalStudy(replace(study, rounds=3, timeout=60.0), folder, boxes, workers=3).run(resume=True)
    assert more.queries_per_client == (18, 18, hanging.count + 6)


def test_reading_while_a_run_writes(folder, nursery):
    """From another process, at any moment: always a sound state of one moment, and never an obstacle to the run."""
    child = nursery.start("study", folder=str(folder), settings={"rounds": 30})
    seen = set()
    while True:
        try:
            result = fzoos.load(folder)
        except StoreError as error:
            early = ("there is no file of runs at", "no run has begun", "has no run yet")
            assert any(words in str(error) for words in early)  # noqa: PT017
            continue
        seen.add((result.status, result.rounds))
        assert result.rounds == len(result.history)
        if result.history:
            last = result.history[-1]
            assert (result.bytes_up, result.bytes_down, result.seconds) == (
                last.bytes_up,
                last.bytes_down,
                last.seconds,
            )
            assert result.queries >= last.queries
        if result.status != "running":
            break
    values, status = child.result()
    assert (status, values["status"]) == (0, "completed")
    assert ("completed", 30) in seen
    assert result.x.tobytes().hex() == values["x"]
