"""Secure aggregation: the server gets the average, and nothing from which one site's numbers can be read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flower_in_process import SITES, InProcess, flower_study
from flower_in_process import box as box_of
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common import bytes_to_ndarray
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from fzoos import Study
from fzoos.engines import LocalStudy
from fzoos.engines.flower import FlowerEngine, SecureFlowerEngine, client_app
from fzoos.engines.flower.masks import masks
from fzoos.engines.flower.vectors import MODULUS, WEIGHT, Layout, levels
from fzoos.engines.flower.wire import pack
from fzoos.federation.site import StudySite
from fzoos.federation.study_run import run_study
from fzoos.messages.codec import encode
from fzoos.messages.message import Message as Request

DIM = 40
CLIENTS = range(len(SITES))


def study(**changes: Any) -> Study:
    algorithm = {"name": "scaffoldii", "local_steps": 2, "differences": {"count": 2}}  # replies with x and a payload
    return flower_study(DIM, **{"rounds": 2, "min_clients": 2, "algorithm": algorithm} | changes)


def box(config: Any) -> Callable[[np.ndarray], float]:
    return box_of(config["site"])


def request(round: int = 1) -> Request:
    return Request("update", round, {"x": np.full(DIM, 0.5)})


class View:
    """A grid that keeps everything the server is sent."""

    def __init__(self, grid: Any) -> None:
        self._grid = grid
        self.seen: list[Message] = []

    def pull_messages(self, ids: Iterable[str]) -> list[Message]:
        found = list(self._grid.pull_messages(ids))
        self.seen += found
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    @property
    def data(self) -> bytes:
        """All bytes of all replies, as Flower sends them."""
        return b"".join(p.deflate() for m in self.seen for p in get_all_nested_objects(m).values())

    def vectors(self) -> list[np.ndarray]:
        """All vectors of numbers that came in the protocol's own records."""
        found = []
        for message in self.seen:
            config = message.content.config_records.get(RECORD_KEY_CONFIGS, {}) if message.has_content() else {}
            found += [bytes_to_ndarray(part) for part in config.get(Key.MASKED_PARAMETERS, [])]
        return found


class Federation:
    def __init__(self, flower: InProcess, folder: Path, study: Study) -> None:
        self.flower, self.folder, self.study = flower, folder, study
        self.view = View(flower.grid)

    def add(
        self, site: str, wrap: Callable[[ClientApp], Any] = lambda app: app, secure: bool = True, **options: Any
    ) -> int:
        app = client_app(box, self.study, secure_aggregation=secure, **options)
        journal = str(self.folder / f"{site}.journal")
        config: dict[str, Any] = {"site": site, "journal": journal, "site_seed": self.study.seed}
        return self.flower.add(wrap(app), config, name=site)

    def engine(self) -> SecureFlowerEngine:
        return SecureFlowerEngine(self.view, self.study, poll=0.005, join=0.2, patience=0.2)  # type: ignore[arg-type]

    def replies(self, clients: Iterable[int] = CLIENTS) -> dict[int, Request]:
        """What each site would answer in clear."""
        found = {}
        for client in clients:
            config = {"site": SITES[client]}
            journal, seed = self.folder / "clear" / SITES[client], self.study.seed
            with StudySite(self.study, client, box(config), journal, site_seed=seed) as site:
                found[client] = site.handle(request())
        return found


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    with InProcess() as flower:
        yield Federation(flower, tmp_path, study())


def mean(replies: dict[int, Request], name: str, weights: np.ndarray | None = None) -> np.ndarray:
    return np.average([reply.arrays[name] for reply in replies.values()], axis=0, weights=weights)


def quantum(name: str, bound: float = 100.0, clients: int = 3) -> float:
    """The distance of two levels: a client's number is off by less, and so is an average of them (equal weights)."""
    return 2 * (2.0 if name == "x" else bound) / levels(clients)


# The sum is right


def test_the_average_is_the_clear_one_up_to_the_quantisation(federation: Federation) -> None:
    for site in SITES:
        federation.add(site)
    outcome = federation.engine().exchange(dict.fromkeys(CLIENTS, request()), 20.0)
    clear = federation.replies()
    assert set(outcome.replies) == set(CLIENTS)
    for client, reply in outcome.replies.items():
        assert set(reply.arrays) == {"x", "c"}
        for name in ("x", "c"):
            assert np.max(np.abs(reply.arrays[name] - mean(clear, name))) < quantum(name)
        assert (reply.kind, reply.round, reply.scalars) == ("iterate", 1, clear[client].scalars)


def test_weights_are_those_of_the_study(tmp_path: Path) -> None:
    """A weight w is sent as an integer, w / max(w) * 2^30, which adds an error of 2^-31 of the range to the quantum."""
    weights = np.array([0.5, 0.2, 0.3])
    with InProcess() as flower:
        federation = Federation(flower, tmp_path, study(weights=weights.tolist()))
        for site in SITES:
            federation.add(site)
        outcome = federation.engine().exchange(dict.fromkeys(CLIENTS, request()), 20.0)
        clear = federation.replies()
    for name in ("x", "c"):
        error = np.max(np.abs(outcome.replies[0].arrays[name] - mean(clear, name, weights)))
        assert error < 3 * quantum(name)  # three errors, and the sum of w / max(w) is 2


# The server sees sums only


def test_no_site_s_numbers_are_in_what_the_server_is_sent(federation: Federation) -> None:
    for site in SITES:
        federation.add(site)
    federation.engine().exchange(dict.fromkeys(CLIENTS, request()), 20.0)
    data, vectors = federation.view.data, [v for v in federation.view.vectors() if len(v) > 1]
    assert len(vectors) == 3
    for reply in federation.replies().values():
        for array in reply.arrays.values():
            assert not any(number.tobytes() in data for number in array)
        # Nor are they there quantised: a masked number is anywhere in 0, ..., 2^32 - 1.
        quantised = (Layout.of(reply.arrays, 100.0).join(reply.arrays) + 1) * levels(3) / 2
        for vector in vectors:
            distance = np.abs(vector - quantised)
            assert np.min(np.minimum(distance, MODULUS - distance)) > 2
    assert {m.metadata.message_type for m in federation.view.seen} == {"train"}


def test_the_same_search_finds_the_numbers_in_what_a_plain_exchange_sends(federation: Federation) -> None:
    for site in SITES:
        federation.add(site, secure=False)
    engine = FlowerEngine(federation.view, federation.study, poll=0.005)  # type: ignore[arg-type]
    engine.exchange(dict.fromkeys(CLIENTS, request()), 20.0)
    data = federation.view.data
    for reply in federation.replies().values():
        for array in reply.arrays.values():
            assert all(number.tobytes() in data for number in array)


@pytest.mark.parametrize("kind", ["query", "train.default", "query.site"])
def test_a_site_in_secure_aggregation_answers_nothing_in_clear(federation: Federation, kind: str) -> None:
    """Flower's mod lets "train.default" pass unmasked to the same function."""
    node = federation.add("north")
    grid = federation.flower.grid
    content = pack(encode(request(), federation.study.id), "north")
    content.config_records[RECORD_KEY_CONFIGS] = ConfigRecord({Key.STAGE: Stage.COLLECT_MASKED_VECTORS})
    (reply,) = grid.send_and_receive([Message(content, node, kind, ttl=10.0)], timeout=10.0)
    if kind == "query.site":  # its name is all it tells
        assert reply.content["site"] == ConfigRecord({"name": "north"})
        assert len(reply.content) == 1
    else:
        assert "PermissionError" in reply.error.reason


def test_an_array_that_comes_in_clear_is_refused(federation: Federation) -> None:
    def leaky(app: ClientApp) -> Any:
        def answer(message: Message, context: Context) -> Message:
            collecting = message.content.config_records[RECORD_KEY_CONFIGS][Key.STAGE] == Stage.COLLECT_MASKED_VECTORS
            reply = app(message, context)
            if collecting:
                reply.content["leak"] = pack(b"in clear", "north")["fzoos"]
            return reply

        return answer

    for site in SITES:
        federation.add(site, wrap=leaky if site == "north" else lambda app: app)
    outcome = federation.engine().exchange(dict.fromkeys(CLIENTS, request()), 20.0)
    assert set(outcome.replies) == {1, 2}
    assert "in clear" in str(outcome.failures[0])


GOOD = {
    Key.STAGE: Stage.SETUP,
    Key.SAMPLE_NUMBER: 3,
    Key.SHARE_NUMBER: 3,
    Key.THRESHOLD: 2,
    Key.CLIPPING_RANGE: 1.0,
    Key.TARGET_RANGE: levels(3),
    Key.MOD_RANGE: MODULUS,
    Key.MAX_WEIGHT: float(WEIGHT),
}


@pytest.mark.parametrize(
    ("config", "refused"),
    [
        (GOOD, None),
        (GOOD | {Key.SAMPLE_NUMBER: 1, Key.SHARE_NUMBER: 1, Key.THRESHOLD: 1}, "1 sites"),
        (GOOD | {Key.THRESHOLD: 1}, "threshold 1"),
        (GOOD | {Key.MOD_RANGE: 2**31}, "another quantisation: mod_range"),
        ({Key.STAGE: Stage.SHARE_KEYS, "1": [b"", b""]}, "keys of 1 sites"),
        ({Key.STAGE: Stage.COLLECT_MASKED_VECTORS, Key.SOURCE_LIST: [], Key.CIPHERTEXT_LIST: []}, "a sum over 1 sites"),
        ({Key.STAGE: Stage.UNMASK, Key.ACTIVE_NODE_ID_LIST: [1], Key.DEAD_NODE_ID_LIST: [2]}, "unmasking 1 sites"),
        ({Key.STAGE: Stage.UNMASK, Key.ACTIVE_NODE_ID_LIST: [1, 2], Key.DEAD_NODE_ID_LIST: [2]}, "also declared lost"),
    ],
)
def test_a_site_refuses_a_protocol_that_would_show_more_than_a_sum(
    federation: Federation, config: dict[str, Any], refused: str | None
) -> None:
    node = federation.add("north")
    content = RecordDict({RECORD_KEY_CONFIGS: ConfigRecord(config)})
    (reply,) = federation.flower.grid.send_and_receive([Message(content, node, "train", ttl=10.0)], timeout=10.0)
    if refused is None:
        assert isinstance(reply.content.config_records[RECORD_KEY_CONFIGS][Key.PUBLIC_KEY_1], bytes)
    else:
        assert "PermissionError" in reply.error.reason
        assert refused in reply.error.reason


def test_masks_need_the_whole_seed() -> None:
    """Two seeds of which Flower's own generator makes the same mask, since it folds them into 32 bits."""
    one, two = bytes(range(32)), bytes(range(4, 32)) + bytes(range(4))
    assert np.array_equal(*(pseudo_rand_gen(seed, MODULUS, [(50,)])[0] for seed in (one, two)))
    assert not np.any(masks(one, MODULUS, [(50,)])[0] == masks(two, MODULUS, [(50,)])[0])


def test_masks_are_uniform_and_the_same_for_the_same_seed() -> None:
    (values,) = masks(bytes(32), MODULUS, [(100_000,)])
    assert np.array_equal(values, masks(bytes(32), MODULUS, [(100_000,)])[0])
    assert values.min() >= 0
    assert values.max() < MODULUS
    counts = np.histogram(values, bins=100, range=(0, MODULUS))[0]
    assert np.sum((counts - 1000) ** 2 / 1000) < 160  # chi-squared of 99 degrees: beyond with probability 1e-4


def test_both_halves_of_flower_s_protocol_take_these_masks(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sees to it by itself: in a deployment the other half is on another machine."""
    halves = [
        import_module(f"flwr.{half}")
        for half in (
            "client.mod.secure_aggregation.secaggplus_mod",
            "server.workflow.secure_aggregation.secaggplus_workflow",
        )
    ]
    forget = [lambda half=half: monkeypatch.setattr(half, "pseudo_rand_gen", pseudo_rand_gen) for half in halves]
    forget[0]()
    for site in SITES:
        federation.add(site)
    assert halves[0].pseudo_rand_gen is masks
    forget[1]()
    federation.engine().exchange(dict.fromkeys(CLIENTS, request()), 10.0)
    assert halves[1].pseudo_rand_gen is masks


# Sites that are lost on the way


@pytest.mark.parametrize(
    ("stage", "fault"),
    [(stage, "error") for stage in Stage.all()]
    + [(Stage.SHARE_KEYS, "garbage"), (Stage.COLLECT_MASKED_VECTORS, "silence")],
)
def test_a_site_that_is_lost_in_any_stage_does_not_stop_the_others(
    federation: Federation, stage: str, fault: str
) -> None:
    release = threading.Event()

    def failing(app: ClientApp) -> Any:
        def answer(message: Message, context: Context) -> Message:
            if message.content.config_records[RECORD_KEY_CONFIGS][Key.STAGE] != stage:
                return app(message, context)
            if fault == "error":
                raise RuntimeError("lost")
            if fault == "silence":
                release.wait(20.0)
            return Message(RecordDict({RECORD_KEY_CONFIGS: ConfigRecord({"x": 1})}), reply_to=message)

        return answer

    for site in SITES:
        federation.add(site, wrap=failing if site == "north" else lambda app: app)
    outcome = federation.engine().exchange(dict.fromkeys(CLIENTS, request()), 4.0 if fault == "silence" else 20.0)
    release.set()
    summed = (0, 1, 2) if stage == Stage.UNMASK else (1, 2)  # in the last stage its vector is in the sum already
    assert tuple(sorted(outcome.replies)) == summed
    assert set(outcome.failures) == set(CLIENTS) - set(summed)
    clear = federation.replies(summed)
    for name in ("x", "c"):
        assert np.max(np.abs(outcome.replies[1].arrays[name] - mean(clear, name))) < quantum(name)


def test_numbers_beyond_the_range_are_not_cut_but_refused(federation: Federation) -> None:
    """SecAgg+ itself would clip them without a word. The payload here, a gradient, is larger than a tenth."""
    for site in SITES:
        federation.add(site, bound=0.1)
    outcome = federation.engine().exchange(dict.fromkeys(CLIENTS, request()), 10.0)
    assert not outcome.replies
    assert "array 'c' leaves [-0.1, 0.1]" in str(outcome.failures[0])


def test_robust_aggregates_and_sums_exclude_each_other() -> None:
    with InProcess() as flower, pytest.raises(ValueError, match="aggregate is 'median'"):
        SecureFlowerEngine(flower.grid, study(aggregate="median"))


def test_sums_have_a_precision_of_their_own() -> None:
    with InProcess() as flower, pytest.raises(ValueError, match="precision is 'float32', but secure aggregation"):
        SecureFlowerEngine(flower.grid, study(precision="float32"))


def test_values_are_known_as_a_sum_alone(tmp_path: Path) -> None:
    """With share_values the server knows F up to the quantisation; no f_i is in what it was sent."""
    settings = study(share_values=True)
    boxes = [box({"site": site}) for site in SITES]
    plain = LocalStudy(settings, tmp_path / "plain", boxes, site_seed=settings.seed).run()
    with InProcess() as flower:
        federation = Federation(flower, tmp_path, settings)
        for site in SITES:
            federation.add(site)
        result = run_study(federation.study, federation.engine(), tmp_path / "result.db")
        seen = federation.view.data
    assert result.queries_per_client == plain.queries_per_client
    values = [record.monitor for record in result.history]
    np.testing.assert_allclose(values, [record.monitor for record in plain.history], rtol=0, atol=1e-4)
    exact = np.mean([box({"site": site})(result.x) for site in SITES])
    assert abs(values[-1] - exact) < quantum("value")
    for site in SITES:
        assert np.float64(box({"site": site})(result.x)).tobytes() not in seen
