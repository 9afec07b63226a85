"""Callbacks for TensorBoard, MLflow and Weights & Biases: what the real packages read back is what the run did."""

import json
import math
import struct
import sys

import numpy as np
import pytest

from fzoos import FZooS, Record, minimize
from fzoos.callbacks import CallbackList, MLflow, TensorBoard, WandB, metrics

NAMES = {
    "F", "queries", "bytes_up", "bytes_down", "seconds", "step", "diagnostics/correction_length",
    "distance/mean", "distance/max",
}  # fmt: skip


def run(callback, **more):
    f = lambda x: float(x @ x)
    settings = {"algorithm": FZooS(features=50), "rounds": 3, "monitor": f, "seed": 0}
    return minimize([f, f], np.ones(3), bounds=(-1, 1), callback=callback, **(settings | more))


def expected(result):
    return {name: [(r.round, metrics(r)[name]) for r in result.history] for name in NAMES}


def test_metrics_of_a_record():
    record = Record(2, 40, 96, 64, 0.5, 0.1, 3.0, {"correction_length": 1.0}, (20, 20), (0.1, None, 0.3))
    assert metrics(record) == {
        "F": 3.0, "queries": 40, "bytes_up": 96, "bytes_down": 64, "seconds": 0.5, "step": 0.1,
        "diagnostics/correction_length": 1.0, "distance/mean": 0.2, "distance/max": 0.3,
    }  # fmt: skip


def test_what_is_not_known_is_left_out():
    record = Record(1, 40, 96, 64, 0.5, math.inf, None, {"correction_length": math.nan}, (), (None, None))
    assert metrics(record) == {"queries": 40, "bytes_up": 96, "bytes_down": 64, "seconds": 0.5}


# TensorBoard


def read_events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(str(folder)).Reload()
    found = {}
    for tag in events.Tags()["tensors"]:
        assert events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars"
        found[tag] = [(event.step, float(make_ndarray(event.tensor_proto))) for event in events.Tensors(tag)]
    return found


@pytest.fixture
def tensorboard():
    pytest.importorskip("tensorboard")


def test_tensorboard_reads_the_run(tensorboard, tmp_path):
    with TensorBoard(tmp_path / "runs" / "one") as board:
        result = run(board)
    found = read_events(tmp_path / "runs" / "one")
    assert found.keys() == NAMES
    for name, pairs in expected(result).items():
        assert found[name] == [(r, float(np.float32(value))) for r, value in pairs], name  # TensorBoard's precision


# MLflow


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    """A file store, and no word to anyone outside."""
    for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK", "MLFLOW_ALLOW_FILE_STORE"):
        monkeypatch.setenv(name, "true")
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    mlflow = pytest.importorskip("mlflow")
    before = mlflow.get_tracking_uri()
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"file:{tmp_path}/store")
    mlflow.set_experiment("hospitals")
    yield mlflow
    while mlflow.active_run() is not None:
        mlflow.end_run()
    mlflow.set_tracking_uri(before)


def read_metrics(mlflow, run_id):
    client = mlflow.MlflowClient()
    names = client.get_run(run_id).data.metrics
    return {name: [(metric.step, metric.value) for metric in client.get_metric_history(run_id, name)] for name in names}


pytestmark = pytest.mark.filterwarnings("ignore:::mlflow")


def test_mlflow_reads_the_run(mlflow):
    with MLflow("first", params={"algorithm": FZooS(), "rounds": 3}, tags={"team": "north"}) as log:
        result = run(log)
        assert mlflow.active_run().info.run_id == log.run_id  # artefacts can be added
    kept = mlflow.MlflowClient().get_run(log.run_id)
    assert (kept.info.run_name, kept.info.status) == ("first", "FINISHED")
    assert kept.data.params["algorithm.type"] == "FZooS"
    assert kept.data.params["rounds"] == "3"
    assert kept.data.tags["team"] == "north"
    assert read_metrics(mlflow, log.run_id) == expected(result)
    assert mlflow.active_run() is None


def test_mlflow_takes_the_active_run_and_leaves_it_active(mlflow):
    with mlflow.start_run() as active:
        with MLflow() as log:
            run(log)
        assert log.run_id == active.info.run_id
        assert mlflow.active_run() is not None
        assert mlflow.MlflowClient().get_run(log.run_id).info.status == "RUNNING"
    assert len(read_metrics(mlflow, log.run_id)["F"]) == 3


# Weights & Biases


@pytest.fixture
def wandb(tmp_path, monkeypatch):
    """Without a connection: the run is written to a file."""
    for name, value in {"MODE": "offline", "DIR": tmp_path, "SILENT": "true", "ERROR_REPORTING": "false"}.items():
        monkeypatch.setenv(f"WANDB_{name}", str(value))
    wandb = pytest.importorskip("wandb")
    yield wandb
    wandb.teardown()  # what it has read from the environment must not outlive the test


def records_of(path):
    """The messages in a .wandb file: seven bytes, then a log in the way of LevelDB, in blocks of 32 KiB."""
    data = path.read_bytes()
    assert data[:4] == b":W&B"
    at, message = 7, b""
    while at < len(data):
        left = 32768 - at % 32768
        if left < 7:  # no room for a head: the block is filled up with zeros
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        message += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part of one
            yield message
            message = b""


def read_offline(folder):
    """History, exit code, configuration and x-axes from the file that `wandb sync` would send."""
    import wandb
    from wandb.proto import wandb_internal_pb2

    wandb.teardown()  # its own process writes the file, and has written it when it is gone
    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    history, exits, config, axes = [], [], {}, {}
    for body in records_of(path):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(body)
        kind = record.WhichOneof("record_type")
        if kind == "history":
            items = record.history.item
            history.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
        elif kind == "exit":
            exits.append(record.exit.exit_code)
        elif kind == "run":
            config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        elif kind == "metric":
            axes[record.metric.name] = record.metric.step_metric
    return history, exits, config, axes


def test_wandb_reads_the_run(wandb, tmp_path):
    with WandB(project="hospitals", config={"algorithm": FZooS(), "rounds": 3}) as log:
        result = run(log)
    history, exits, config, axes = read_offline(tmp_path)
    assert exits == [0]
    assert config["algorithm"]["type"] == "FZooS"
    assert {name: [(row["round"], row[name]) for row in history] for name in NAMES} == expected(result)
    assert {name: axes[name] for name in NAMES} == dict.fromkeys(NAMES, "round")
    assert wandb.run is None


def test_wandb_is_told_of_an_error(wandb, tmp_path):
    with pytest.raises(ZeroDivisionError), WandB(project="hospitals") as log:
        run(lambda record: log(record) or 1 / 0)
    assert read_offline(tmp_path)[1] == [1]


# all of them


@pytest.mark.parametrize(
    ("make", "package"),
    [(lambda: TensorBoard("runs"), "tensorboard"), (MLflow, "mlflow"), (WandB, "wandb")],
    ids=["tensorboard", "mlflow", "wandb"],
)
def test_without_the_package(monkeypatch, tmp_path, make, package):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"needs {package}: pip install 'fzoos\[{package}\]'"):
        make()
    assert not list(tmp_path.iterdir())


def test_together_calls_all_and_any_of_them_stops():
    calls = []
    stop = lambda record: record.round == 2
    result = run(CallbackList(lambda r: calls.append(("a", r.round)), stop, lambda r: calls.append(("b", r.round))))
    assert (result.status, result.rounds) == ("stopped", 2)
    assert calls == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_the_run_is_the_same_with_callbacks(tensorboard, tmp_path):
    with TensorBoard(tmp_path) as board:
        assert np.array_equal(run(board).x, run(None).x)
