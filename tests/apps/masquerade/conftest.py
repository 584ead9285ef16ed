"""Made users of a machine."""

import numpy as np
import pytest
from helpers import make_chain, walk


@pytest.fixture(scope="module")
def users():
    """Five users: 40 sessions to train, 30 own and 30 of the other users to test."""
    rng = np.random.default_rng(7)
    chains = [make_chain(rng) for _ in range(5)]
    own = [walk(chain, rng, 70) for chain in chains]
    made = []
    for u in range(5):
        others = [s for v in range(5) if v != u for s in own[v][40:48]][:30]
        made.append((own[u][:40], own[u][40:], others))
    return made
