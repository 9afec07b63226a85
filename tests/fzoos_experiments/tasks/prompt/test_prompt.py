"""The task: what it measures, and what it says to bad input."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fzoos import FedZO, minimize
from fzoos_experiments.tasks.data import DataError
from fzoos_experiments.tasks.prompt import ModelFile, Prompt, Texts, load_texts, split_texts
from fzoos_experiments.tasks.prompt.llama import Llama


@pytest.fixture
def make(tiny):
    """The task with the tiny model and few texts."""

    def made(**changes):
        settings = {"dim": 6, "clients": 2, "texts": 5, "test": 6, "classes": ("a", "b", "c"), "data": tiny.texts()}
        return Prompt(**{**settings, "model": tiny.path, "instruction": "one of a b c:", "scale": 1.0, **changes})

    return made


def test_the_objective_is_the_mean_cross_entropy(tiny, make):
    """One text and one prompt at a time, from the model's scores alone."""
    task = make(texts=3)
    file = ModelFile(tiny.path)
    tokenizer, model = file.tokenizer, Llama(file.sizes, file.weights())
    names = [tokenizer.encode(f" {name}").ids[0] for name in "abc"]
    data, (mine, _) = tiny.texts(), split_texts(tiny.texts().label, 2, 3, 2.0, 6, 0)
    prompt = model.embed([tokenizer.encode("one of a b c:").ids])
    for objective, share in zip(task.objectives, mine, strict=True):
        losses = []
        for i in share:
            text = tokenizer.encode(f" {data.text[i]}\nSection:").ids
            scores = model.scores(prompt, model.pack([text], prompt.shape[1]))[0, 0, names].double().numpy()
            losses.append(np.log(np.exp(scores).sum()) - scores[data.label[i]])
        np.testing.assert_allclose(objective(np.zeros((1, 6))), [np.mean(losses)], rtol=1e-4)


def test_the_gradient(make):
    """That of F, by central differences in all coordinates."""
    task, x, step = make(), np.linspace(-0.5, 0.5, 6), 3e-3
    shifts = step * np.eye(6)
    differences = [(task.value(x + s) - task.value(x - s)) / (2 * step) for s in shifts]
    np.testing.assert_allclose(task.gradient(x), differences, atol=3e-3)


def test_tuning_lowers_the_loss(make):
    """The prompt found by `minimize` is better than the instruction, which knows nothing of these texts."""
    task = make(heterogeneity=0.0)
    result = minimize(
        task.objectives, task.x0, bounds=task.bounds, algorithm=FedZO(), rounds=8, vectorized=True, seed=0
    )
    assert task.value(result.x) < task.value(task.x0) - 0.05


def test_accuracy_and_answers(make):
    """The share of test texts whose right class has the highest score; every answer is one of the classes."""
    task = make()
    answers = task.answers(task.x0, count=6)
    _, test = split_texts(task.data.label, 2, 5, 2.0, 6, 0)
    assert sorted(answer.text for answer in answers) == sorted(task.data.text[test])
    assert task.accuracy(task.x0) == pytest.approx(np.mean([a.right == a.chosen for a in answers]))
    assert {answer.chosen for answer in answers} <= {"a", "b", "c"}
    assert [answer.said for answer in answers] == [answer.said for answer in task.answers(task.x0, count=6)]


def test_deal_keeps_texts_apart():
    """No text twice; test texts of each class alike; a class that runs out is replaced by others."""
    labels = np.repeat(np.arange(3), (40, 40, 8))
    mine, test = split_texts(labels, clients=4, texts=18, heterogeneity=3.0, test=9, seed=1)
    everything = np.concatenate([*mine, test])
    assert len(np.unique(everything)) == len(everything) == 4 * 18 + 9
    assert np.bincount(labels[test]).tolist() == [3, 3, 3]


def test_heterogeneity():
    """The mean largest share of a class at a client: near 1 / 4 for C = 0, near 1 for C = 100."""
    labels = np.repeat(np.arange(4), 500)

    def largest(c):
        mine, _ = split_texts(labels, clients=5, texts=60, heterogeneity=c, test=4, seed=0)
        return np.mean([np.bincount(labels[m], minlength=4).max() / 60 for m in mine])

    assert largest(0.0) < 0.4 < largest(1.0) < largest(100.0)
    assert largest(100.0) > 0.95


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": ("a", "b", "dd")}, "classes has 'dd', the texts are of a, b, c"),
        ({"classes": ("a",)}, "classes must be at least two different names"),
        ({"texts": 0}, "texts must be at least 1"),
        ({"texts": 30}, r"client 0 gets no 30 texts: only 30 are left|client 1 gets no 30 texts: only 0 are left"),
        ({"test": 60}, "test is 60, 20 of each class, but class 0 has only 12 texts"),
        ({"instruction": ""}, "instruction is empty"),
        ({"ending": "-" * 508}, r"the text ' \w{3}-+\.\.\.' has 51[12] tokens, the model has room for 1 to 502"),
        ({"heterogeneity": -1.0}, "heterogeneity must be a finite number of at least 0"),
        ({"device": "tpu"}, "device must be cpu or cuda"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_input(make, changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes).value(np.zeros(6))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"text": np.array(["a"])}, "has no array label"),
        (Texts(np.array([1]), np.array([0]), np.array(["a"]))._asdict(), "expected texts, integers and texts"),
        (Texts(np.array(["a"]), np.array([0, 1]), np.array(["a"]))._asdict(), r"labels of shape \(2,\)"),
        (Texts(np.array(["a"]), np.array([1]), np.array(["a"]))._asdict(), r"labels 1\.\.1 for 1 classes"),
    ],
)
def test_texts_in_another_layout(tmp_path, arrays, message):
    np.savez(tmp_path / "debian.npz", **arrays)
    with pytest.raises(DataError, match=message):
        load_texts(tmp_path)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu(make):
    """float16, compiled, and from the third time on replayed: the same values to three digits, whatever was asked."""
    rng, gpu, cpu = np.random.default_rng(0), make(device="cuda"), make()
    for _ in range(5):
        z = rng.uniform(-1, 1, (4, 6))
        np.testing.assert_allclose(gpu.objectives[0](z), cpu.objectives[0](z), rtol=5e-3, atol=5e-3)
    np.testing.assert_allclose(gpu.gradient(z[0]), cpu.gradient(z[0]), rtol=0.05, atol=0.05)
