"""The attack task: objectives, success rule, draw of images, training of the clients' models."""

from __future__ import annotations

import contextlib
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fzoos import FedZO, minimize
from fzoos_experiments.tasks import clients
from fzoos_experiments.tasks.attack import DATASETS, Attack, Attacks, WeakModelError
from fzoos_experiments.tasks.data import Images
from fzoos_experiments.tasks.models import Recipe, build, resnet18
from fzoos_experiments.tasks.replay import as_queried

TINY = Recipe("cnn", width=4, epochs=20, batch=16, min_accuracy=0.5)
COLOUR = DATASETS["cifar10"].pixels


def generated(side: int = 28, channels: int = 1, train: int = 600, test: int = 200, seed: int = 0) -> Images:
    """Ten classes that a small network can tell apart: class k has a bright bar at rows 2k, 2k + 1."""
    rng = np.random.default_rng(seed)

    def some(n: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.integers(0, 60, (n, side, side, channels))
        y = np.arange(n) % 10
        for row in (2 * y, 2 * y + 1):
            x[np.arange(n), row] += 180
        x = x.astype(np.uint8)
        return (x[..., 0] if channels == 1 else x), y.astype(np.uint8)

    return Images(*some(train), *some(test))


@pytest.fixture(scope="module")
def data() -> Images:
    return generated()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache(home, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.delenv("FZOOS_DATA", raising=False)
    return home


@pytest.fixture
def attacks(data, cache) -> Attacks:
    return Attacks("mnist", 0.7, images=6, clients=10, recipe=TINY, data=data)


def direct(task: Attack, i: int, x: np.ndarray) -> float:
    """f_i of one perturbation, written out: one image, one pixel and one class after the other."""
    image = task.image.copy()
    for channel in range(image.shape[0]):
        low, high = task.pixels.low[channel], task.pixels.high[channel]
        for j in range(task.dim):
            row, column = divmod(j, image.shape[2])
            image[channel, row, column] = min(max(image[channel, row, column] + x[j], low), high)
    with torch.no_grad():
        out = task.models[i](torch.tensor(image[None], dtype=torch.float32))[0].tolist()
    return out[task.label] - max(v for k, v in enumerate(out) if k != task.label)


def test_objectives_against_a_direct_computation(attacks):
    task = attacks[0]
    x = np.random.default_rng(0).uniform(*task.bounds, (4, task.dim))
    values = [f(x) for f in task.objectives]
    assert all(v.dtype == np.float64 and v.shape == (4,) for v in values)
    expected = [[direct(task, i, row) for row in x] for i in range(10)]
    np.testing.assert_allclose(values, expected, atol=2e-4)  # float32
    np.testing.assert_allclose([task.value(row) for row in x], np.mean(expected, axis=0), atol=2e-4)


def test_one_channel_is_added_to_all_three_and_clipped():
    # d = 32 * 32, added to all three channels of normalised pixels; 0 and 1 become -mean/std and (1 - mean)/std.
    models = [build(Recipe("resnet18", width=2), 3, 32, 10, seed) for seed in range(2)]
    image = COLOUR.tensor(generated(32, 3, test=10).x_test)[3].double().numpy()
    task = Attack(models, image, label=3, radius=0.1, pixels=COLOUR)
    assert task.dim == 1024
    assert task.bounds == (-0.1, 0.1)
    x = np.random.default_rng(1).uniform(-0.1, 0.1, (2, 1024))
    for i in range(2):
        np.testing.assert_allclose(task.objectives[i](x), [direct(task, i, row) for row in x], atol=1e-4)
    assert COLOUR.low == pytest.approx([-0.49139968 / 0.24703223, -0.48215841 / 0.24348513, -0.44653091 / 0.26158784])


def channels_last(model: nn.Module) -> list[bool]:
    """Of each convolution whose weights lie differently in memory then: with one channel or pixel they do not."""
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    weights = [c.weight for c in convolutions if c.in_channels > 1 and c.kernel_size != (1, 1)]
    return [w.is_contiguous(memory_format=torch.channels_last) and not w.is_contiguous() for w in weights]


def test_on_a_cpu_models_have_their_channels_last_wherever_they_come_from(data, monkeypatch, tmp_path):
    """Trained just now and read from the cache; the weights themselves are the same."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    trained, read = (Attacks("mnist", 1.0, clients=1, images=1, recipe=TINY, data=data).clients[0] for _ in range(2))
    assert channels_last(trained.model) == channels_last(read.model) == [True]
    for one, other in zip(trained.model.parameters(), read.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_replayed_network_has_the_logits_of_float64_up_to_tf32():
    """Each call gets the logits of its own images, before a batch size is recorded and after."""
    networks = [build(Recipe("resnet18", width=width), 3, 32, 10, seed=0).to("cuda") for width in (16, 32)]
    batches = [torch.rand(n, 3, 32, 32, device="cuda") for n in (1, 21, 50)]
    queried = [as_queried(deepcopy(network), "cuda") for network in networks]
    with torch.no_grad():
        for _ in range(4):
            for network, replayed in zip(networks, queried, strict=True):
                for images in batches:
                    exact = deepcopy(network).double()(images.double())
                    assert float((replayed(images) - exact).abs().max()) < 5e-3 * float(exact.abs().max())


def constant(*logits: float) -> nn.Module:
    """A model whose logits do not depend on the image."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, len(logits)))
    model[1].weight.data.zero_()
    model[1].bias.data[:] = torch.tensor(logits)
    return model


@pytest.mark.parametrize(
    ("models", "averaged", "mean"),
    [
        # Averaged (3, 2, 2): 3 - 2 = 1. Alone: 3 - 4 and 3 - 4, mean -1: only the weaker rule holds.
        ([(3, 4, 0), (3, 0, 4)], 1.0, -1.0),
        # Averaged (1, 3, 0): 1 - 3 = -2. Alone: 2 - 4 and 0 - 2, mean -2: both hold.
        ([(2, 4, 0), (0, 2, 0)], -2.0, -2.0),
        # Averaged (4, 1, 0): 3. Alone: 5 - 0 and 3 - 2, mean 3: neither.
        ([(5, 0, 0), (3, 2, 0)], 3.0, 3.0),
        # A tie: the class is still among the largest, so neither rule holds.
        ([(1, 1, 0)], 0.0, 0.0),
    ],
)
def test_success_rules_by_hand(models, averaged, mean):
    task = Attack([constant(*m) for m in models], np.zeros((1, 2, 2)), label=0, radius=0.3)
    assert task.margin(task.x0) == averaged
    assert task.value(task.x0) == mean
    assert task.attacked(task.x0) is (averaged < 0.0)


def test_a_task_like_any_other(attacks):
    task = attacks[1]
    np.testing.assert_array_equal(task.x0, np.zeros(784))
    assert task.bounds == (-0.3, 0.3)
    result = minimize(
        task.objectives, task.x0, bounds=task.bounds, algorithm=FedZO(local_steps=2), rounds=2, seed=0,
        vectorized=True, monitor=task.value,
    )  # fmt: skip
    assert result.history[-1].monitor < task.value(task.x0)


def test_images_are_those_that_the_averaged_logits_get_right(attacks, data):
    assert len(attacks) == len(list(attacks)) == len(set(attacks.indices)) == 6
    for task, index in zip(attacks, attacks.indices, strict=True):
        assert task.label == data.y_test[index]
        np.testing.assert_allclose(task.image, data.x_test[index][None] / 255, atol=1e-7)
        assert task.margin(task.x0) > 0
        assert not task.attacked(task.x0)
    with pytest.raises(IndexError):
        attacks[6]


def test_models_know_their_classes(attacks, data):
    # P = 0.7 and N = K = 10: seven classes each, every class known by seven. Accuracy is on test images of those.
    known = [client.classes for client in attacks.clients]
    assert [len(k) for k in known] == [7] * 10
    assert [sum(c in k for k in known) for c in range(10)] == [7] * 10
    client = attacks.clients[0]
    mine = np.isin(data.y_test, client.classes)
    with torch.no_grad():
        guess = client.model(torch.tensor(data.x_test[mine, None] / 255, dtype=torch.float32)).argmax(1).numpy()
    assert attacks.accuracies[0] == np.mean(guess == data.y_test[mine])


def test_training_is_deterministic_and_not_repeated(data, monkeypatch, tmp_path):
    def make(folder, **changes):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / folder))
        arguments = {"portion": 0.5, "clients": 2, "images": 1, "recipe": replace(TINY, min_accuracy=0.0), "data": data}
        return Attacks("mnist", **(arguments | changes))

    def weights(made):
        return [torch.cat([p.flatten() for p in c.model.parameters()]).detach().numpy() for c in made.clients]

    state = torch.random.get_rng_state()
    first, second = make("one"), make("two")
    assert torch.equal(torch.random.get_rng_state(), state)
    np.testing.assert_array_equal(weights(first), weights(second))

    trained = []
    monkeypatch.setattr(clients, "train", lambda *arguments: trained.append(arguments))
    again = make("one")
    assert not trained
    np.testing.assert_array_equal(weights(again), weights(first))
    assert again.accuracies == first.accuracies
    changes = [
        {"seed": 1},
        {"portion": 0.6},
        {"recipe": replace(TINY, epochs=21, min_accuracy=0.0)},
        {"data": data._replace(x_train=255 - data.x_train)},
    ]
    for number, change in enumerate(changes, start=1):
        with contextlib.suppress(WeakModelError):  # untrained models may get no image right
            make("one", **change)
        assert len(trained) == 2 * number


def test_a_damaged_file_is_trained_again(data, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make = lambda: Attacks("mnist", 1.0, clients=1, images=1, recipe=TINY, data=data).accuracies
    first = make()
    (file,) = (tmp_path / "fzoos" / "models").iterdir()
    file.write_bytes(file.read_bytes()[:1000])
    assert make() == first


def test_a_weak_model_stops_it(data):
    with pytest.raises(WeakModelError, match=r"client 0 has accuracy 0\.\d+ .* \(min_accuracy is 1\)") as error:
        Attacks("mnist", 0.7, recipe=replace(TINY, epochs=1, samples=100, min_accuracy=1.0), data=data)
    assert "\n" not in str(error.value)


def test_resnet18_has_its_layers():
    # He et al.: a stem, 4 stages of 2 blocks of 2 convolutions, a dense layer: 18 with weights, and 3 projections.
    model = resnet18(3, 10, width=4)
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    assert len([c for c in convolutions if c.kernel_size == (3, 3)]) == 17
    assert len([c for c in convolutions if c.kernel_size == (1, 1)]) == 3
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dataset": "svhn"}, "dataset must be one of mnist, cifar10, got 'svhn'"),
        ({"portion": 0.0}, r"portion must be in \(0, 1\], got 0.0"),
        ({"device": "gpu"}, "device must be cpu or cuda, got 'gpu'"),
        ({"device": "cuda:x"}, "device must be cpu or cuda"),
        ({"images": 0}, "images must be at least 1"),
        ({"clients": 0}, "clients must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_bad_settings_are_named(settings, message, data):
    with pytest.raises(ValueError, match=message):
        Attacks(**({"recipe": TINY, "data": data} | settings))
