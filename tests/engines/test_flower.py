"""The Flower engine over Flower's own in-memory link: the same numbers as without it, and nobody stops the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flower_in_process import SITES, InProcess, box, flower_study
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from fzoos import Result, Study, load
from fzoos.engines import LocalStudy
from fzoos.engines.flower import FlowerEngine, client_app, server_app
from fzoos.engines.flower.wire import pack, unpack
from fzoos.federation.study_run import run_study
from fzoos.messages.codec import MessageError, RemoteFailure, encode
from fzoos.messages.message import Message as Request
from fzoos.testing import EngineContract, SiteObjective

DIM = 3


def study(**changes: Any) -> Study:
    algorithm = {"name": "fedzo", "local_steps": 3, "differences": {"count": 2}}
    return flower_study(DIM, **{"rounds": 3, "seed": 4, "algorithm": algorithm} | changes)


def request(round: int = 1) -> Request:
    return Request("update", round, {"x": np.full(DIM, 0.5)})


class Federation:
    """A Flower server and nodes in this process, with journals in a folder."""

    def __init__(self, flower: InProcess, folder: Path, study: Study) -> None:
        self.flower, self.folder, self.study = flower, folder, study
        self.asked: dict[str, int] = dict.fromkeys(SITES, 0)  # queries, counted by the objectives themselves

    def add(self, site: str, name: str | None = None, app: ClientApp | None = None) -> int:
        journal = str(self.folder / f"{site}.journal")
        config: dict[str, Any] = {"site": site, "journal": journal, "site_seed": self.study.seed}
        return self.flower.add(app or client_app(self.objective, self.study), config, name=name)

    def objective(self, config: Any) -> Callable[[np.ndarray], float]:
        site = str(config["site"])

        def counted(x: np.ndarray) -> float:
            self.asked[site] += 1
            return box(site)(x)

        return counted

    def engine(self, **options: Any) -> FlowerEngine:
        return FlowerEngine(self.flower.grid, self.study, **({"poll": 0.005, "join": 0.2, "patience": 0.2} | options))


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    with InProcess() as flower:
        yield Federation(flower, tmp_path, study())


# The same numbers


class TestContract(EngineContract):
    def run(self, study: Study, folder: Path, *, resume: bool) -> Result:
        with InProcess() as flower:
            app = client_app(lambda config: SiteObjective(str(config["site"]), folder), study)
            for site in study.sites:
                flower.add(app, {"site": site, "journal": str(folder / f"{site}.journal")}, name=site)
            engine = FlowerEngine(flower.grid, study, poll=0.005, join=0.2, patience=0.2)
            return run_study(study, engine, folder / "result.db", resume=resume)


def test_a_slow_site_holds_nobody_up_and_its_answer_is_used(tmp_path: Path) -> None:
    """Two of three are enough. The third answers round 1 after round 2; repeated without Flower in the order in which
    the answers came, the study ends with the same numbers."""
    ours, gate = study(enough=2, rounds=8, algorithm={"name": "fedzo"}), threading.Event()

    class Slow(Federation):
        def objective(self, config: Any) -> Callable[[np.ndarray], float]:
            counted = super().objective(config)

            def gated(x: np.ndarray) -> float:
                assert config["site"] != "south" or gate.wait(60)
                return counted(x)

            return gated

    with InProcess() as flower:
        federation = Slow(flower, tmp_path, ours)
        for site in SITES:
            federation.add(site, name=site)
        result = run_study(
            ours,
            federation.engine(),
            tmp_path / "result.db",
            callback=lambda record: gate.set() if record.round == 2 else None,
        )

    assert result.status == "completed"
    late = [record.round for record in result.history if any(2 in clients for clients in record.arrivals)]
    assert late
    assert late[0] >= 3
    again = LocalStudy(ours, tmp_path / "again", [box(site) for site in SITES], 1, ours.seed, repeat=result).run()
    assert result.x.tobytes() == again.x.tobytes()


def test_the_server_app_leaves_a_result_and_resumes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = LocalStudy(study(rounds=3), tmp_path / "plain", [box(site) for site in SITES], site_seed=study().seed).run()
    path = tmp_path / "result.db"
    with InProcess() as flower:
        federation = Federation(flower, tmp_path, study())
        for site in SITES:
            federation.add(site, name=site)
        for rounds, resume in ((1, False), (3, True)):
            context = Context(1, 1, {}, RecordDict(), {"result": str(path), "resume": resume})
            server_app(study(rounds=rounds))(flower.grid, context)

    assert load(path).x.tobytes() == whole.x.tobytes()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("round")] == ["round 1", "round 2", "round 3"]


# Which node is which site


def test_nodes_without_a_name_are_asked_for_it(federation: Federation) -> None:
    for site in reversed(SITES):
        federation.add(site)
    outcome = federation.engine(join=5.0).exchange(dict.fromkeys(range(3), request()), 10.0)
    assert set(outcome.replies) == {0, 1, 2}
    assert not outcome.failures


def test_the_registered_name_counts_not_what_a_node_says(federation: Federation) -> None:
    """A node that was registered as "east" but says it is "north" answers for neither."""
    federation.add("north", name="east")
    outcome = federation.engine().exchange({0: request(), 1: request()}, 10.0)
    assert not outcome.replies
    assert "this is 'north', the request is for 'east'" in str(outcome.failures[1])
    assert "not connected" in str(outcome.failures[0])
    assert federation.asked["north"] == 0


def test_a_stranger_is_told_nothing(federation: Federation, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []
    app = ClientApp()

    @app.query()
    def listen(message: Message, context: Context) -> Message:
        heard.append("request")
        return Message(RecordDict(), reply_to=message)

    @app.query("site")
    def name(message: Message, context: Context) -> Message:
        return Message(RecordDict({"site": ConfigRecord({"name": "west"})}), reply_to=message)

    federation.add("west", app=app)
    federation.add("west", name="west", app=app)
    federation.add("north", name="north")
    engine = federation.engine()
    for round in (1, 2):
        assert set(engine.exchange({0: request(round)}, 10.0).replies) == {0}
    assert not heard
    assert "reports the name 'west', which is none of the sites (north, east, south)" in caplog.text


def naming(answer: Callable[[Message], Message], heard: list[str]) -> ClientApp:
    """A node that says of itself what it likes, and listens."""
    app = replying(lambda message: heard.append("request") or _raise(message))

    @app.query("site")
    def name(message: Message, context: Context) -> Message:
        return answer(message)

    return app


def test_a_node_without_a_name_cannot_take_the_place_of_one_with_it(federation: Federation) -> None:
    heard: list[str] = []
    node = federation.add("north", name="north")
    engine = federation.engine()
    assert set(engine.exchange({0: request()}, 10.0).replies) == {0}
    claim = RecordDict({"site": ConfigRecord({"name": "north"})})
    federation.add("north", app=naming(lambda message: Message(claim, reply_to=message), heard))
    assert set(engine.exchange({0: request(2)}, 10.0).replies) == {0}
    federation.flower.remove(node)
    assert isinstance(engine.exchange({0: request(3)}, 10.0).failures[0], ConnectionError)
    assert not heard


@pytest.mark.parametrize("content", [RecordDict(), RecordDict({"site": ConfigRecord({"name": 1.5})}), None])
def test_a_node_that_tells_no_name_stops_nobody(federation: Federation, content: RecordDict | None) -> None:
    def answer(message: Message) -> Message:
        return _raise(message) if content is None else Message(content, reply_to=message)

    heard: list[str] = []
    federation.add("west", app=naming(answer, heard))
    federation.add("north", name="north")
    assert set(federation.engine().exchange({0: request()}, 10.0).replies) == {0}
    assert not heard


@pytest.mark.parametrize("seconds", [0.01, 0.3], ids=["before the exchange", "within it"])
def test_of_two_nodes_of_one_site_the_later_counts(federation: Federation, seconds: float) -> None:
    """A site without a key comes back as another node while its first one still seems to be there."""
    silent = threading.Event()
    federation.add("north", name="north", app=blocking(silent))
    later = threading.Timer(seconds, federation.add, ("north",), {"name": "north"})
    later.start()
    if seconds < 0.1:
        later.join()
    assert set(federation.engine().exchange({0: request()}, 10.0).replies) == {0}
    silent.set()


# Sites that are away, die, come back, hang


def test_a_site_that_restarts_within_an_exchange_answers_in_it_and_pays_no_query_twice(federation: Federation) -> None:
    """It is taken away when its queries are made and its reply is not yet sent, after longer than the patience."""
    patience = 1.5
    inner = client_app(federation.objective, federation.study)
    made, gone = threading.Event(), threading.Event()

    def dying(message: Message, context: Context) -> Message:
        reply = inner(message, context)
        made.set()
        gone.wait(10.0)
        return reply

    node = federation.add("north", name="north", app=dying)  # type: ignore[arg-type]

    def restart() -> None:
        made.wait(10.0)
        time.sleep(1.1 * patience)
        federation.flower.remove(node)
        time.sleep(0.1)
        gone.set()
        federation.add("north", name="north")

    threading.Thread(target=restart).start()
    outcome = federation.engine(patience=patience, join=patience).exchange({0: request()}, 20.0)
    assert set(outcome.replies) == {0}
    assert federation.asked["north"] == outcome.replies[0].scalars["queries"]


def blocking(release: threading.Event, started: list[str] | None = None) -> ClientApp:
    """A node that hangs until it is released."""
    app = ClientApp()

    @app.query()
    def hang(message: Message, context: Context) -> Message:
        if started is not None:
            started.append(message.metadata.group_id)
        release.wait(30.0)
        return Message(pack(b"too late", "north"), reply_to=message)

    return app


def test_a_site_that_hangs_is_waited_for_until_the_time_out_and_nothing_stale_reaches_it(
    federation: Federation,
) -> None:
    release, started = threading.Event(), []
    federation.add("north", name="north", app=blocking(release, started))
    federation.add("east", name="east")
    engine = federation.engine()
    for round in (1, 2):  # the first request hangs; the second waits behind it until it expires
        outcome = engine.exchange({0: request(round), 1: request(round)}, 0.3)
        assert set(outcome.replies) == {1}
        assert isinstance(outcome.failures[0], TimeoutError)
    release.set()
    time.sleep(0.1)
    assert started == ["1"]


# Sites that answer nonsense


def replying(make: Callable[[Message], Message]) -> ClientApp:
    app = ClientApp()

    @app.query()
    def reply(message: Message, context: Context) -> Message:
        return make(message)

    return app


def _raise(message: Message) -> Message:
    raise RuntimeError("no")


NONSENSE: dict[str, Callable[[Message], Message]] = {
    "no record": lambda message: Message(RecordDict(), reply_to=message),
    "no array": lambda message: Message(RecordDict({"fzoos": ArrayRecord()}), reply_to=message),
    "garbage": lambda message: Message(pack(b"\x00\xff garbage", "north"), reply_to=message),
    "other study": lambda message: Message(pack(encode(request(), "another"), "north"), reply_to=message),
    "other site": lambda message: Message(pack(encode(request(), study().id), "east"), reply_to=message),
    "exception": _raise,
}


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE.keys())
def test_one_site_that_answers_nonsense_does_not_stop_the_others(
    federation: Federation, nonsense: Callable[[Message], Message]
) -> None:
    federation.add("north", name="north", app=replying(nonsense))
    federation.add("east", name="east")
    outcome = federation.engine().exchange({0: request(), 1: request()}, 10.0)
    assert set(outcome.replies) == {1}
    assert isinstance(outcome.failures[0], (MessageError, RemoteFailure))


def test_what_an_objective_says_in_its_error_stays_at_the_site(federation: Federation) -> None:
    def secret(config: Any) -> Any:
        raise ValueError("patient 4711")

    federation.add("north", name="north", app=client_app(secret, federation.study))
    outcome = federation.engine().exchange({0: request()}, 10.0)
    assert "ValueError" in str(outcome.failures[0])
    assert "4711" not in str(outcome.failures[0])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "no site"),
        ({"site": "west"}, "site is 'west', the study has north, east, south"),
        ({"site": "north"}, "cannot answer: ValueError"),  # no journal
    ],
)
def test_a_node_without_the_config_it_needs_says_so(
    federation: Federation, config: dict[str, Any], message: str
) -> None:
    federation.flower.add(client_app(box, federation.study), config, name="north")
    outcome = federation.engine().exchange({0: request()}, 10.0)
    assert message in str(outcome.failures[0])


# The wire


def test_a_large_message_travels_in_pieces() -> None:
    """Proxies refuse large bodies; Flower sends every object in a request of its own."""
    data = np.random.default_rng(0).bytes(12_000_000)
    with InProcess():
        message = Message(pack(data, "north"), 1, "query")
        sizes = [len(part.deflate()) for part in get_all_nested_objects(message).values()]
    assert max(sizes) < 6_000_000
    assert sum(sizes) < len(data) + 2_000
    assert unpack(message.content) == (data, "north")
