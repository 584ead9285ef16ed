"""Robust factorisation on a GPU: time of an iteration against the floor of the device, of a whole fit, and agreement.

    python benchmarks/gpu.py                        # 100,000 x 4,096, rank 100, Manhattan, float32
    python benchmarks/gpu.py --samples 2000 --features 256 --rank 16

The floor of an iteration is the larger of two times: the fewest bytes (the data read, the dual read and written) over
the bandwidth that a large copy reaches here, and the operations (three products with the data, and the sweeps of HALS
over both factors) over the rate that a product of large float32 matrices reaches here. Without a GPU the script runs on
the processor, on a smaller problem, and says so.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"  # scikit-learn asks for it before it leaves arrays where they are

import numpy as np
import sklearn
import torch

from visionnmf import NMF
from visionnmf.engine.arrays import factors
from visionnmf.engine.arrays.admm import AdmmOnDevice
from visionnmf.engine.blocks import n_threads
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers.admm import SWEEPS, AdmmInMemory, follow

OUTLIERS = 0.1  # share of the entries that are replaced


def made(samples: int, features: int, rank: int, device: str) -> torch.Tensor:
    """Return low-rank data in which a tenth of the entries are as large as the largest, made on the device."""
    generator = torch.Generator(device).manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        """Return skewed numbers: squares of normal ones."""
        return torch.randn(*shape, generator=generator, device=device) ** 2

    clean = drawn(samples, rank) @ drawn(rank, features)
    hit = torch.rand(samples, features, generator=generator, device=device) < OUTLIERS
    return torch.where(hit, clean.max(), clean)


def wait(device: str) -> None:
    """Wait until the device has done its work."""
    if device == "cuda":
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
    size = 1 << (28 if device == "cuda" else 24)
    source = torch.randn(size, device=device)
    target = torch.empty_like(source)
    bandwidth = 2 * 4 * size / seconds(lambda: target.copy_(source), device)
    n = 8192 if device == "cuda" else 1024
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


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int)
    parser.add_argument("--features", type=int)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--cpu-iterations", type=int, default=4, help="iterations of the processor; 0 leaves it out")
    parser.add_argument("--no-fit", action="store_true", help="only the iterations, not whole fits")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    defaults = (100_000, 4_096, 100) if device == "cuda" else (4_000, 512, 20)
    given = (options.samples, options.features, options.rank)
    samples, features, rank = (value or default for value, default in zip(given, defaults, strict=True))
    name = torch.cuda.get_device_name() if device == "cuda" else "no GPU: PyTorch on the processor"
    print(f"{name}, PyTorch {torch.__version__}; {samples} x {features}, rank {rank}, Manhattan, float32")
    bandwidth, rate = ceilings(device)
    print(f"ceilings: copy {bandwidth / 1e12:.2f} TB/s, product in float32 {rate / 1e12:.1f} TFLOP/s")
    X = made(samples, features, rank, device)
    problem = Problem(X, Loss("manhattan"))
    Wt, H = (torch.asarray(F, device=device) for F in start(X.shape, rank))
    taken = iteration_times(AdmmOnDevice(problem, Wt), H, options.iterations, device)
    moved = 3 * X.nbytes / bandwidth
    worked = (6 * samples * features * rank + 2 * SWEEPS * rank**2 * (samples + features)) / rate
    median = statistics.median(taken)
    print(f"an iteration: {1e3 * median:.2f} ms ({1e3 * min(taken):.2f} to {1e3 * max(taken):.2f})")
    print(
        f"floor: bytes {1e3 * moved:.2f} ms, operations {1e3 * worked:.2f} ms; "
        f"{median / max(moved, worked):.2f} times the larger, {median / (moved + worked):.2f} times the sum"
    )
    loss = factors.objective(problem, Wt, H)
    if options.cpu_iterations:
        memory = Problem(X.cpu().numpy(), Loss("manhattan"))
        Wt, H = start(X.shape, rank)
        slow = iteration_times(AdmmInMemory(memory, Wt, rank), H, options.cpu_iterations + 2, "cpu")
        print(
            f"the processor, {n_threads()} threads: {statistics.median(slow):.3f} s, "
            f"{statistics.median(slow) / median:.0f} times as long"
        )
        del memory
    print(f"objective after {options.iterations} iterations: {loss:.6g}")
    if options.no_fit:
        return
    with sklearn.config_context(array_api_dispatch=True):
        for words in ("a first fit, which compiles", "the same again"):
            wait(device)
            begin = time.perf_counter()
            model = NMF(rank, random_state=0).fit(X)
            wait(device)
            whole = time.perf_counter() - begin
            print(
                f"{words}: {whole:.1f} s, {model.n_iter_} iterations ({model.n_iter_ * median:.1f} s), "
                f"optimality {model.optimality_:.2g}"
            )
            if device == "cuda":
                print(
                    f"  most memory in use {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB; "
                    f"the data {X.nbytes / 2**30:.1f}"
                )
        begin = time.perf_counter()
        model.transform(X)
        wait(device)
        print(f"codes of all samples for fixed components: {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
