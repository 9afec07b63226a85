"""The form in which networks are queried on a GPU computes what the network computes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import pytest

torch = pytest.importorskip("torch")

from fzoos_experiments.tasks.fused import Recorded, as_queried, fused  # noqa: E402
from fzoos_experiments.tasks.models import cnn, resnet18  # noqa: E402

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def trained(network):
    """With statistics and factors in its batch norms that are neither zero nor one."""
    generator = torch.Generator().manual_seed(0)
    for part in network.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            for tensor in (part.running_mean, part.bias.data):
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
            for tensor in (part.running_var, part.weight.data):
                tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
    return network.eval()


def images(count, channels, side, seed=1):
    return torch.rand((count, channels, side, side), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("network", "channels", "side"), [(resnet18(3, 10, width=8), 3, 32), (cnn(1, 28, 10, width=4), 1, 28)]
)
def test_fused_is_the_same_function(network, channels, side):
    """In float64, where rounding is no excuse."""
    network, x = trained(network).double(), images(3, channels, side).double()
    with torch.no_grad():
        torch.testing.assert_close(fused(network)(x), network(x), rtol=1e-10, atol=1e-10)


def test_no_batch_norm_and_no_relu_of_a_convolution_are_left():
    parts = list(fused(trained(resnet18(3, 10, width=8))).modules())
    assert not any(isinstance(part, torch.nn.BatchNorm2d | torch.nn.ReLU) for part in parts)


def test_the_network_is_left_as_it_was():
    network, x = trained(resnet18(3, 10, width=8)), images(2, 3, 32)
    before = deepcopy(network.state_dict())
    fused(network)(x)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_a_cpu_has_the_network_itself():
    network = trained(cnn(1, 28, 10, width=4))
    assert as_queried(network, "cpu") is network


@on_gpu
@pytest.mark.parametrize("count", [1, 21, 50])
def test_logits_on_a_gpu_are_those_of_float64_but_for_tf32(count):
    """Before a size of batch is recorded, when it is and after: 2^-11 of the logits' spread, some layers deep."""
    network = trained(resnet18(3, 10, width=64)).to("cuda")
    queried, x = Recorded(network), images(count, 3, 32).to("cuda")
    with torch.no_grad():
        exact = deepcopy(network).double()(x.double())
    found = [queried(x) for _ in range(5)]
    for logits in found:
        assert float((logits - exact).abs().max()) < 5e-3 * float(exact.abs().max())
    assert torch.equal(found[0], found[-1])


@on_gpu
def test_a_graph_is_given_the_images_of_each_call_and_keeps_no_answer():
    network = trained(resnet18(3, 10, width=16)).to("cuda")
    queried, parts = Recorded(network), [images(4, 3, 32, seed).to("cuda") for seed in range(6)]
    first = [queried(part) for part in parts]
    again = [queried(part) for part in parts]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[4], first[5])


@on_gpu
def test_more_sizes_than_are_kept_and_several_threads():
    network = trained(resnet18(3, 10, width=16)).to("cuda")
    queried = Recorded(network)
    parts = [images(n, 3, 32).to("cuda") for n in range(1, 13)] * 4
    one_by_one = [queried(part) for part in parts]
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(queried, parts))
    for a, b in zip(one_by_one, at_once, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-3 * float(a.abs().max()))


@on_gpu
def test_graphs_of_two_networks_do_not_disturb_each_other():
    networks = [Recorded(trained(resnet18(3, 10, width=width)).to("cuda")) for width in (16, 32)]
    parts = [images(n, 3, 32, seed=n).to("cuda") for n in (1, 21, 50)]
    expected = [[network(part) for part in parts] for network in networks for _ in range(4)][3::4]
    for _ in range(3):
        for k in (2, 0, 1):
            for network, known in zip(networks, expected, strict=True):
                torch.testing.assert_close(network(parts[k]), known[k], rtol=0, atol=0)


@on_gpu
def test_a_large_batch_goes_in_parts():
    network = trained(resnet18(3, 10, width=8)).to("cuda")
    x = images(700, 3, 32).to("cuda")
    with torch.no_grad():
        exact = deepcopy(network).double()(x.double())
    assert float((Recorded(network)(x) - exact).abs().max()) < 5e-3 * float(exact.abs().max())
