"""A trained network as it is queried on a GPU: small batches, many times.

A query of ResNet-18 is some sixty operations on a batch of twenty images, which mostly take longer to begin than to do.
Three things make it several times as fast, and change the logits by rounding only:

- batch norms, which in evaluation are a factor and a shift of each channel, go into the convolutions before them;
- a convolution, what is added to it and its ReLU are one operation (cuDNN's), channels last;
- the operations for a size of batch that comes again are recorded as a CUDA graph, and begun with one call.

Convolutions round their factors to TF32 (11 bits) and add up in float32: `python -m benchmarks.speed.rounding` prints
what that does to margins, and to gradients made of their differences.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable

from fzoos_experiments.tasks.models import Module, Residual, Tensor, laid_out, nn, torch

__all__ = ["Recorded", "as_queried", "fused"]

_WORTH_RECORDING = 3  # times that a size of batch must come
_KEPT = 3  # graphs of a network: each has memory of its own
_AT_ONCE = 512  # images
_recording = threading.RLock()  # while a graph is recorded, nothing else may be asked of the GPU


def as_queried(model: Module, device: str) -> Module:
    """A trained network in the form in which queries are fastest on a device."""
    return Recorded(model) if device.startswith("cuda") else laid_out(model, device)


def fused(model: Module) -> Module:
    """The same function with batch norms in their convolutions, and ReLUs and sums fused to them; for evaluation only.

    Args:
        model: in evaluation mode: `resnet18`, or any `nn.Sequential`, of which other parts are kept as they are.

    Example:
        >>> import torch
        >>> from fzoos_experiments.tasks.fused import fused
        >>> from fzoos_experiments.tasks.models import resnet18
        >>> model, x = resnet18(channels=3, classes=10, width=4).eval(), torch.rand(2, 3, 32, 32)
        >>> with torch.no_grad():
        ...     print(torch.allclose(fused(model)(x), model(x), atol=1e-5), len(list(model)), len(list(fused(model))))
        True 14 12
    """
    if isinstance(model, Residual):
        return _FusedResidual(model)
    if not isinstance(model, nn.Sequential):
        return model
    parts: list[Module] = []
    for part in model:
        last = parts[-1] if parts else None
        if isinstance(part, nn.BatchNorm2d) and isinstance(last, nn.Conv2d):
            parts[-1] = nn.utils.fusion.fuse_conv_bn_eval(last, part)
        elif isinstance(part, nn.ReLU) and isinstance(last, nn.Conv2d):
            parts[-1] = _ConvolutionReLU(last)
        else:
            parts.append(fused(part))
    return nn.Sequential(*parts)


class _ConvolutionReLU(nn.Module):  # type: ignore[misc]
    """x, z -> relu(convolution(x) + z), z being zero where there is none."""

    def __init__(self, convolution: Module) -> None:
        super().__init__()
        self.convolution = convolution

    def forward(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        c = self.convolution
        if not x.is_cuda:
            return nn.functional.relu(c(x) if z is None else c(x) + z)
        if z is None:
            return torch.cudnn_convolution_relu(x, c.weight, c.bias, c.stride, c.padding, c.dilation, c.groups)
        settings = (c.stride, c.padding, c.dilation, c.groups)
        return torch.cudnn_convolution_add_relu(x, c.weight, z, 1.0, c.bias, *settings)


class _FusedResidual(nn.Module):  # type: ignore[misc]
    """x -> relu(convolutions(x) + shortcut(x))."""

    def __init__(self, block: Module) -> None:
        super().__init__()
        *first, last = fused(block.body)
        self.first, self.last = nn.Sequential(*first), _ConvolutionReLU(last)
        self.shortcut = fused(block.shortcut)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x), self.shortcut(x))


class Recorded:
    """A network on a GPU: images (n, channels, side, side) to logits (n, K), without gradients.

    Args:
        network: in evaluation mode, on the device.

    Attributes:
        network: as it was given.

    Example:
        >>> from fzoos_experiments.tasks.fused import Recorded
        >>> from fzoos_experiments.tasks.models import resnet18
        >>> def logits(images):                                # (21, 3, 32, 32), on the GPU
        ...     network = Recorded(resnet18(channels=3, classes=10).eval().to("cuda"))
        ...     return network(images)
    """

    def __init__(self, network: Module) -> None:
        self.network = network
        self._fused = fused(network).to(memory_format=torch.channels_last)
        self._asked: Counter[tuple[int, ...]] = Counter()
        self._graphs: OrderedDict[tuple[int, ...], Callable[[Tensor], Tensor]] = OrderedDict()

    def __call__(self, images: Tensor) -> Tensor:
        """The logits."""
        if len(images) > _AT_ONCE:
            return torch.cat([self(part) for part in images.split(_AT_ONCE)])
        shape = tuple(images.shape)
        with _recording, torch.no_grad():
            self._asked[shape] += 1
            if shape not in self._graphs and self._asked[shape] < _WORTH_RECORDING:
                return self._compute(images.contiguous(memory_format=torch.channels_last))
            replay = self._graphs.pop(shape, None) or self._record(images)
            self._graphs[shape] = replay  # the last one that was used
            if len(self._graphs) > _KEPT:
                self._graphs.popitem(last=False)
            return replay(images)

    def _compute(self, images: Tensor) -> Tensor:
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=True):
            return self._fused(images)

    def _record(self, images: Tensor) -> Callable[[Tensor], Tensor]:
        """The operations for a batch of this shape, as a graph that is given images and gives logits."""
        inside = images.contiguous(memory_format=torch.channels_last).clone(memory_format=torch.preserve_format)
        aside = torch.cuda.Stream()  # what is done once only, such as to load kernels, must not be recorded
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self._compute(inside)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            outside = self._compute(inside)

        def replay(images: Tensor) -> Tensor:
            inside.copy_(images)
            graph.replay()
            return outside.clone()

        return replay
