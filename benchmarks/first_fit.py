"""What a user waits for kernels to be compiled: the first fit on a fresh machine, against importing the libraries.

``python benchmarks/first_fit.py`` runs every loss (some ten minutes); ``python benchmarks/first_fit.py manhattan 1.5``
some of them, ``... float32`` or ``... dense missing`` some of the cases, ``... kernels`` adds a table of the kernels'
compile seconds. Each case runs in two processes, the first with an empty cache of kernels, the second with what it has
left; the difference of their processor seconds is what compiling costs. The imports are measured right before and
after, because the speed of a machine changes with its load. One thread. A ratio above 2 fails the bar.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

LOSSES = ["manhattan", "frobenius", "elastic-net", "huber", "l21", "kullback-leibler", "itakura-saito", "1.5", "-0.5"]
SPARSE = {"manhattan", "frobenius", "kullback-leibler"}
DTYPES = ["float32", "float64"]
KINDS = ["dense", "missing", "sparse"]
IMPORTS = "import time, sklearn.base, sklearn.decomposition, numba, scipy.sparse; print(time.process_time())"
BAR = 2.0


def cpu_seconds_of_imports() -> float:
    """Measure what importing scikit-learn, numba and scipy costs a fresh process."""
    return float(subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True).stdout)


def first_fit(loss: str, dtype: str, kind: str) -> tuple[float, list[tuple[str, float]]]:
    """Return the processor seconds of compiling in a first fit, and those of each kernel."""
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (_in_new_process(loss, dtype, kind, cache) for _ in range(2))
    assert not warm["kernels"], f"compiled although cached: {warm['kernels']}"
    return cold["seconds"] - warm["seconds"], cold["kernels"]


def _in_new_process(loss: str, dtype: str, kind: str, cache: str) -> dict[str, Any]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--fit", loss, dtype, kind]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def fit(loss: str, dtype: str, kind: str) -> None:
    """Fit once and print processor seconds and compiled kernels; runs in a process of its own."""
    import warnings

    import numpy as np
    import scipy.sparse as sp
    from numba.core import event

    kernels: list[tuple[str, float]] = []
    inner: list[float] = []  # seconds of the kernels compiled within those that are being compiled
    starts: list[float] = []

    class Listener(event.Listener):  # type: ignore[misc, unused-ignore]
        def on_start(self, event: Any) -> None:
            starts.append(time.process_time())
            inner.append(0.0)

        def on_end(self, event: Any) -> None:
            seconds = time.process_time() - starts.pop()
            function = event.data["dispatcher"].py_func
            name = function.__module__
            if name.startswith("visionnmf"):
                name = f"{name.rpartition('.')[2]}.{function.__name__}"
            kernels.append((name, seconds - inner.pop()))
            if inner:
                inner[-1] += seconds

    event.register("numba:compile", Listener())
    rng = np.random.default_rng(0)
    X = (rng.gamma(0.5, 1, (120, 5)) @ rng.gamma(0.5, 1, (5, 100)) + 0.01).astype(dtype)
    X = np.maximum(X, X.dtype.type(0.01))
    data: Any = X
    if kind == "missing":
        X[rng.random(X.shape) < 0.1] = np.nan
    if kind == "sparse":
        data = sp.csr_array(np.where(rng.random(X.shape) < 0.1, X, 0))
    start = time.process_time()
    from visionnmf import NMF

    warnings.simplefilter("ignore")
    own = float(loss) if loss[-1].isdigit() and loss != "l21" else loss
    NMF(5, loss=own, max_iter=20, random_state=0, missing_values=np.nan).fit(data)
    print(json.dumps({"seconds": time.process_time() - start, "kernels": kernels}))


def main(arguments: list[str]) -> int:
    from _machine import machine

    losses = [loss for loss in LOSSES if loss in arguments] or LOSSES
    dtypes = [dtype for dtype in DTYPES if dtype in arguments] or DTYPES
    kinds = [kind for kind in KINDS if kind in arguments] or KINDS
    cases = [(loss, kind, dtype) for loss in losses for kind in kinds for dtype in dtypes]
    cases = [case for case in cases if case[1] != "sparse" or case[0] in SPARSE]
    print(machine())
    print("\n| loss | data | dtype | seconds of compiling | of the imports | quotient | functions compiled |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    compiled = {}
    after = cpu_seconds_of_imports()
    for loss, kind, dtype in cases:
        before = after
        seconds, kernels = first_fit(loss, dtype, kind)
        after = cpu_seconds_of_imports()
        compiled[loss, kind, dtype] = kernels
        imports = (before + after) / 2
        ratio = f"{seconds / imports:.1f}" + (" (fails)" if seconds > BAR * imports else "")
        print(f"| {loss} | {kind} | {dtype} | {seconds:.1f} | {imports:.1f} | {ratio} | {len(kernels)} |", flush=True)
    if "kernels" in arguments:
        print("\n| loss | data | dtype | kernel, or module of numba | times | seconds, without the kernels it calls |")
        print("| --- | --- | --- | --- | --- | --- |")
        for (loss, kind, dtype), kernels in compiled.items():
            names = {name for name, _ in kernels}
            seconds_of = {name: [seconds for other, seconds in kernels if other == name] for name in names}
            for name, all_seconds in sorted(seconds_of.items(), key=lambda pair: -sum(pair[1])):
                print(f"| {loss} | {kind} | {dtype} | {name} | {len(all_seconds)} | {sum(all_seconds):.2f} |")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fit"]:
        fit(*sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
