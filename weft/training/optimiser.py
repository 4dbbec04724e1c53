"""Where and how torch computes during training: one thread, one device, one vector of parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from weft.errors import InputError, WeftError
from weft.policies.tensors import Array


class FlatAdam:
    """Adam on all parameters as one vector: one fused kernel per step, two vectors of state."""

    def __init__(self, net: torch.nn.Module) -> None:
        parameters = list(net.parameters())
        flat = torch.cat([p.detach().reshape(-1) for p in parameters])
        self._flat = torch.nn.Parameter(flat)  # (num_parameters,)
        self._gradient = torch.zeros_like(flat)  # (num_parameters,)
        self._flat.grad = self._gradient
        at = 0
        for p in parameters:
            p.data = self._flat.data[at : at + p.numel()].view_as(p)
            p.grad = self._gradient[at : at + p.numel()].view_as(p)
            at += p.numel()
        self._adam = torch.optim.Adam([self._flat], fused=True)
        self._moments = {"step": torch.zeros((), device=flat.device)}
        self._moments |= {name: torch.zeros_like(flat) for name in ("exp_avg", "exp_avg_sq")}
        self._adam.state[self._flat] = self._moments

    def step(self, loss: Tensor, learning_rate: float, gradient_clip: float | None) -> None:
        """Follow the gradient of this loss once."""
        self.gradient(loss, gradient_clip)
        self.follow(learning_rate)

    def gradient(self, loss: Tensor, gradient_clip: float | None) -> Tensor:
        """The gradient (num_parameters,) of this loss, no longer than ``gradient_clip``; it is overwritten by the next."""
        self._gradient.zero_()
        torch.autograd.backward(loss)
        if gradient_clip is not None:
            self._gradient.mul_(torch.clamp(gradient_clip / (self._gradient.norm() + 1e-6), max=1.0))
        return self._gradient

    def follow(self, learning_rate: float) -> None:
        """A step along the gradient that was computed last."""
        self._adam.param_groups[0]["lr"] = learning_rate
        self._adam.step()

    def state(self) -> dict[str, Array]:
        """The moments."""
        return {f"adam.{name}": tensor.cpu().numpy().copy() for name, tensor in self._moments.items()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        for name, tensor in self._moments.items():
            tensor.copy_(torch.from_numpy(state[f"adam.{name}"]))


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread: faster for small nets, and the same sums every time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def device_named(name: str) -> torch.device:
    """``cpu``, ``cuda`` or ``cuda:1``, if it is there."""
    kind, colon, number = name.partition(":")
    if kind not in ("cpu", "cuda") or (colon and not (kind == "cuda" and number.isdigit())):
        raise InputError(f"expected cpu or cuda, got {name!r:.80}", field="device")
    if kind == "cuda" and not torch.cuda.is_available():
        raise InputError("this torch finds no CUDA device: use cpu", field="device")
    if number and int(number) >= torch.cuda.device_count():
        raise InputError(
            f"this torch finds {torch.cuda.device_count()} CUDA devices, got {name!r:.80}", field="device"
        )
    return torch.device(name)


def finite(figures: Tensor, update: int) -> list[float]:
    """The figures as numbers, if training has not blown up."""
    numbers: list[float] = figures.tolist()
    if not all(map(math.isfinite, numbers)):
        raise WeftError(f"training diverged in update {update + 1}: lower learning_rate or set gradient_clip")
    return numbers
