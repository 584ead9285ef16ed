"""Robust factorisation on a GPU: time of an iteration against the floor of the device, of whole fits, and of codes.

- ``iteration``: one iteration of ADMM for the Manhattan loss in float32, beside the compiled kernels on the processor.
  The floor is the larger of two times: the fewest bytes (the data read, the dual read and written) over the bandwidth
  that a large copy reaches here, and the operations (three products with the data, and the sweeps of HALS over both
  factors) over the rate that a product of large float32 matrices reaches here.
- ``fits``: a first fit, which compiles, the same again, and the codes of all samples.

Without a GPU both run on the processor, on a smaller problem, and say so.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"  # scikit-learn asks for it before it leaves arrays where they are

import numpy as np
import sklearn
from _main import Missing, main

from visionnmf import NMF
from visionnmf.engine.arrays.admm import AdmmOnDevice
from visionnmf.engine.blocks import n_threads
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers.admm import SWEEPS, AdmmInMemory, follow

SAMPLES, FEATURES, RANK = 100_000, 4_096, 100  # on a GPU
SHARE = 25  # the processor gets this part of the samples, and an eighth of the features and a fifth of the rank
OUTLIERS = 0.1  # share of the entries that are replaced
ITERATIONS = 30
CPU_ITERATIONS = 1  # of the compiled kernels on the processor; 0 leaves them out
LARGE = 28  # logarithm of the entries of the copy that measures the bandwidth of a GPU
WIDE = 8192  # side of the matrices whose product measures its rate

QUICK: dict[str, Any] = {"SAMPLES": 2500, "FEATURES": 256, "RANK": 25, "ITERATIONS": 4, "LARGE": 16, "WIDE": 128}


def device_and_data() -> tuple[str, Any]:
    """Return "cuda" or "cpu" and the data, after a line about both; raise Missing without PyTorch."""
    try:
        import torch
    except ImportError:
        raise Missing("no PyTorch here; `sh setup.sh gpu` installs it") from None
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "no GPU: PyTorch on the processor"
    shape = (SAMPLES, FEATURES) if device == "cuda" else (SAMPLES // SHARE, FEATURES // 8)
    X = made(*shape, rank(device), device)
    print(f"{name}, PyTorch {torch.__version__}; {shape[0]} x {shape[1]}, rank {rank(device)}, Manhattan, float32\n")
    print("| what | figure |\n| --- | --- |")
    return device, X


def rank(device: str) -> int:
    """Return the number of components."""
    return RANK if device == "cuda" else RANK // 5


def made(samples: int, features: int, rank: int, device: str) -> Any:
    """Return low-rank data in which a tenth of the entries are as large as the largest, made on the device."""
    import torch

    generator = torch.Generator(device).manual_seed(0)

    def drawn(*shape: int) -> Any:
        """Return skewed numbers: squares of normal ones."""
        return torch.randn(*shape, generator=generator, device=device) ** 2

    clean = drawn(samples, rank) @ drawn(rank, features)
    hit = torch.rand(samples, features, generator=generator, device=device) < OUTLIERS
    return torch.where(hit, clean.max(), clean)


def wait(device: str) -> None:
    """Wait until the device has done its work."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def seconds(function: Callable[[], Any], device: str, times: int = 10) -> float:
    """Return the median time of calls of a function, after two that are not counted."""
    for _ in range(2):
        function()
    taken = []
    for _ in range(times):
        wait(device)
        start = time.perf_counter()
        function()
        wait(device)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def ceilings(device: str) -> tuple[float, float]:
    """Return the bytes a second of a large copy, read and written, and the operations a second of a large product."""
    import torch

    size = 1 << (LARGE if device == "cuda" else min(LARGE, 24))
    source = torch.randn(size, device=device)
    target = torch.empty_like(source)
    bandwidth = 2 * 4 * size / seconds(lambda: target.copy_(source), device)
    n = WIDE if device == "cuda" else min(WIDE, 1024)
    A, B = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
    return bandwidth, 2 * n**3 / seconds(lambda: A @ B, device)


def start(shape: tuple[int, int], rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the transposed codes and the components to start from."""
    rng = np.random.default_rng(1)
    return tuple(rng.random((rank, size), np.float32) for size in shape)  # type: ignore[return-value]


def iteration_times(rows: Any, H: Any, iterations: int, device: str) -> list[float]:
    """Return the seconds of each iteration of ADMM after the first two, which compile."""
    taken = []
    steps = follow(rows, H, max_iter=iterations)
    for number in range(iterations):
        wait(device)
        begin = time.perf_counter()
        next(steps)
        wait(device)
        if number >= 2:
            taken.append(time.perf_counter() - begin)
    return taken


def row(what: str, figure: str) -> None:
    """Print a row of the table."""
    print(f"| {what} | {figure} |")


def iteration() -> None:
    """Print the time of an iteration, its floor, and that of the processor."""
    device, X = device_and_data()
    import torch

    (samples, features), r = X.shape, rank(device)
    bandwidth, rate = ceilings(device)
    row("copy; product in float32", f"{bandwidth / 1e12:.3f} TB/s; {rate / 1e12:.2f} TFLOP/s")
    problem = Problem(X, Loss("manhattan"))
    Wt, H = (torch.asarray(F, device=device) for F in start(X.shape, r))
    taken = iteration_times(AdmmOnDevice(problem, Wt), H, ITERATIONS, device)
    moved = 3 * X.nbytes / bandwidth
    worked = (6 * samples * features * r + 2 * SWEEPS * r**2 * (samples + features)) / rate
    median = statistics.median(taken)
    row("an iteration", f"{1e3 * median:.2f} ms ({1e3 * min(taken):.2f} to {1e3 * max(taken):.2f})")
    row("its floor by bytes; by operations", f"{1e3 * moved:.2f} ms; {1e3 * worked:.2f} ms")
    row(
        "over the larger of both; over their sum",
        f"{median / max(moved, worked):.2f}; {median / (moved + worked):.2f}",
    )
    row(f"objective after {ITERATIONS} iterations", f"{problem.objective(Wt, H):.6g}")
    if CPU_ITERATIONS:
        memory = Problem(X.cpu().numpy(), Loss("manhattan"))
        Wt, H = start(X.shape, r)
        slow = statistics.median(iteration_times(AdmmInMemory(memory, Wt), H, CPU_ITERATIONS + 2, "cpu"))
        row(f"the processor, {n_threads()} threads", f"{slow:.3f} s, {slow / median:.3g} times as long")


def fits() -> None:
    """Print the seconds of a first fit, of the same again, and of the codes of all samples."""
    device, X = device_and_data()
    import torch

    with sklearn.config_context(array_api_dispatch=True):
        for words in ("a first fit, which compiles", "the same again"):
            wait(device)
            begin = time.perf_counter()
            model = NMF(rank(device), max_iter=400, random_state=0).fit(X)
            wait(device)
            whole = time.perf_counter() - begin
            row(words, f"{whole:.1f} s, {model.n_iter_} iterations")
            if device == "cuda":
                used = torch.cuda.max_memory_allocated() / 2**30
                row("most memory in use; the data", f"{used:.1f} GiB; {X.nbytes / 2**30:.1f} GiB")
        begin = time.perf_counter()
        model.transform(X)
        wait(device)
        row("codes of all samples for fixed components", f"{time.perf_counter() - begin:.1f} s")


PARTS = {"iteration": iteration, "fits": fits}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK)
