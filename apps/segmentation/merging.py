"""Regions merged two by two, weakest border first, each border's strength anew after every merge that changes it.

Rows are added and copied entry by entry: numba takes twice as long to compile whole rows, as it must word their errors.

Kernels only; :mod:`.hierarchy` validates, allocates and says what the numbers mean. Node k of the tree is region k for
k < n, and the merge k - n after that.
"""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

__all__ = ["CUES", "FEATURES", "merge", "predict"]

# What compiled code has taken from another file stays as it was when that file is edited: so the layout is here.
CUES = ("lab 1", "lab 2", "L 2", "ab 2", "L 4", "ab 4", "T 4", "L 8", "ab 8", "T 8", "L 16", "ab 16", "T 16")
"""Names of the cues of a border: what changes, and at which width of the blur; see :mod:`.cues`."""

_N_CUES = 13

# Columns of the regions' sums: pixels, sides on the frame, energy, CIELAB and its squares, histograms.
SIZE, FRAME, ENERGY, LAB, LAB_SQUARED, HISTOGRAMS = 0, 1, 2, 3, 6, 9
_L, _AB, _T, N_SUMS = 9, 19, 35, 67  # where the histograms of L, of a and b, and of textons begin, and the end

FEATURES = (
    *(f"mean {cue}" for cue in CUES),
    "mean energy",
    "lightness difference",
    "chroma difference",
    "colour difference",
    "colour difference / spread",
    "chi-squared of L",
    "chi-squared of ab",
    "chi-squared of textons",
    "log share of the smaller",
    "log share of the larger",
    "length / root of the smaller",
    "length / shorter perimeter",
    "lower energy within",
    "higher energy within",
    "energy of the border / within",
    "lower spread",
    "higher spread",
    "frame of the smaller",
    "frame of the larger",
    "roundness of both",
    "colour difference / picture's spread",
    "picture's energy",
    "picture's spread",
)
"""Names of the features of a border; those of global cues, one a group of columns, come after them."""


@kernel(part=True)
def _chi_squared(regions, i, j, start, stop):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(start, stop):
        p = regions[i, k] / regions[i, SIZE]
        q = regions[j, k] / regions[j, SIZE]
        if p + q > 0:
            total += (p - q) * (p - q) / (p + q)
    return total / 2


@kernel(part=True)
def _spread(regions, i):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(3):
        mean = regions[i, LAB + k] / regions[i, SIZE]
        total += max(regions[i, LAB_SQUARED + k] / regions[i, SIZE] - mean * mean, 0.0)
    return np.sqrt(total)


@kernel(part=True)
def _describe(regions, perimeters, groups, picture, i, j, border, out):  # type: ignore[no-untyped-def]
    """Write the features of the border between nodes i and j."""
    if regions[i, SIZE] > regions[j, SIZE]:
        i, j = j, i
    small, large = regions[i, SIZE], regions[j, SIZE]
    length = border[0]
    for k in range(_N_CUES):
        out[k] = border[2 + k] / length
    at = _N_CUES
    energy = border[1] / length
    out[at] = energy
    lightness = (regions[i, LAB] / small - regions[j, LAB] / large) ** 2
    a = (regions[i, LAB + 1] / small - regions[j, LAB + 1] / large) ** 2
    b = (regions[i, LAB + 2] / small - regions[j, LAB + 2] / large) ** 2
    difference = np.sqrt(lightness + a + b)
    spread_i, spread_j = _spread(regions, i), _spread(regions, j)
    pooled = np.sqrt((small * spread_i**2 + large * spread_j**2) / (small + large))
    out[at + 1] = np.sqrt(lightness)
    out[at + 2] = np.sqrt(a + b)
    out[at + 3] = difference
    out[at + 4] = difference / (pooled + 2)
    out[at + 5] = _chi_squared(regions, i, j, _L, _AB)
    out[at + 6] = _chi_squared(regions, i, j, _AB, _T)
    out[at + 7] = _chi_squared(regions, i, j, _T, N_SUMS)
    out[at + 8] = np.log(small / picture[0])
    out[at + 9] = np.log(large / picture[0])
    out[at + 10] = length / np.sqrt(small)
    out[at + 11] = length / max(min(perimeters[i], perimeters[j]), 1.0)
    within_i, within_j = regions[i, ENERGY] / small, regions[j, ENERGY] / large
    out[at + 12] = min(within_i, within_j)
    out[at + 13] = max(within_i, within_j)
    out[at + 14] = energy / ((within_i + within_j) / 2 + 0.05)
    out[at + 15] = min(spread_i, spread_j)
    out[at + 16] = max(spread_i, spread_j)
    out[at + 17] = regions[i, FRAME] / np.sqrt(small)
    out[at + 18] = regions[j, FRAME] / np.sqrt(large)
    around = perimeters[i] + perimeters[j] - 2 * length + regions[i, FRAME] + regions[j, FRAME]
    out[at + 19] = np.sqrt(small + large) / max(around, 1.0)
    out[at + 20] = difference / (picture[2] + 2)
    out[at + 21] = picture[1]
    out[at + 22] = picture[2]
    for group in range(len(groups) - 1):
        total = 0.0
        for k in range(groups[group], groups[group + 1]):
            total += abs(regions[i, k] / small - regions[j, k] / large)
        out[at + 23 + group] = total


@kernel
def predict(row, roots, features, thresholds, children, values):  # type: ignore[no-untyped-def]
    """Return the sum of the leaves that a row of features reaches, one a tree.

    Parameters
    ----------
    row : ndarray of float64 [shape=(n_features,)]
    roots : ndarray of int32 [shape=(n_trees,)]
    features : ndarray of int8 [shape=(n_nodes,)]
        The feature that a node asks for; negative in a leaf.
    thresholds : ndarray of float32 [shape=(n_nodes,)]
        A row goes left where its feature is at most this.
    children : ndarray of int32 [shape=(n_nodes,)]
        The left child; the right one comes after it.
    values : ndarray of float32 [shape=(n_nodes,)]
        What a leaf adds.

    Returns
    -------
    float
    """
    total = 0.0
    for node in roots:
        while features[node] >= 0:
            node = children[node] + (row[features[node]] > thresholds[node])
        total += values[node]
    return total


@kernel(allocates=True)
def merge(regions, perimeters, groups, picture, ends, borders, model, base, exponent, record, pairs):  # type: ignore[no-untyped-def]
    """Merge until one node is left, or several that do not touch.

    Parameters
    ----------
    regions : ndarray of float64 [shape=(2 n - 1, n_sums)]
        Sums over the n regions; rows of the merges are written.
    perimeters : ndarray of float64 [shape=(2 n - 1,)]
        Sides of each region that are borders.
    groups : ndarray of int64 [shape=(n_groups + 1,)]
        Where groups of further columns of `regions` begin, and the end: memberships, for example, whose mean absolute
        differences are features.
    picture : ndarray of float64 [shape=(3,)]
        Number of pixels, mean energy, spread of the colours.
    ends : ndarray of int64 [shape=(m, 2)]
        Regions that touch; overwritten.
    borders : ndarray of float64 [shape=(m, n_border_sums)]
        Sums over their borders; overwritten.
    model : tuple
        What :func:`predict` takes after the row.
    base : float
        What the trees' leaves are added to.
    exponent : float, >= 0
        The weakest border is the one with the least strength times the smaller region's share to this power.
    record : ndarray of float64 [shape=(capacity, n_features)]
        The features of the borders looked at, first come first written.
    pairs : ndarray of int64 [shape=(capacity, 2)]
        Their nodes.

    Returns
    -------
    children : ndarray of int64 [shape=(n - 1, 2)]
        Nodes that each merge joins.
    costs : ndarray of float64 [shape=(n - 1,)]
        What the border cost that was taken away.
    done : int
        Merges; rows of `children` and `costs` in use.
    written : int
        Rows of `record` in use.
    strengths : ndarray of float64 [shape=(m,)]
        Strength of the borders at the start.
    """
    roots, features, thresholds, left, values = model
    m = len(ends)
    n = (len(regions) + 1) // 2
    # half edge 2 e + s hangs in the list of node ends[e, s]
    following = np.full(2 * m, -1)
    first = np.full(2 * n - 1, -1)
    for half in range(2 * m):
        node = ends[half // 2, half % 2]
        following[half] = first[node]
        first[node] = half
    alive = np.ones(m, np.bool_)
    cost = np.empty(m)
    strengths = np.empty(m)
    row = np.empty(len(FEATURES) + len(groups) - 1)
    written = 0
    parallel = np.full(2 * n - 1, -1)  # the edge to a neighbour that is already known
    children = np.empty((n - 1, 2), np.int64)
    costs = np.empty(n - 1)
    done = 0
    stale = np.arange(m)
    n_stale = m
    for step in range(n):
        for s in range(n_stale):
            e = stale[s]
            i, j = ends[e, 0], ends[e, 1]
            _describe(regions, perimeters, groups, picture, i, j, borders[e], row)
            strength = min(max(base + predict(row, roots, features, thresholds, left, values), 0.0), 1.0)
            cost[e] = strength * (min(regions[i, SIZE], regions[j, SIZE]) / picture[0]) ** exponent
            if step == 0:
                strengths[e] = strength
            if written < len(record):
                for k in range(len(row)):
                    record[written, k] = row[k]
                pairs[written, 0], pairs[written, 1] = i, j
                written += 1
        if step == n - 1:
            break
        weakest = -1
        for e in range(m):
            if alive[e] and (weakest < 0 or cost[e] < cost[weakest]):
                weakest = e
        if weakest < 0:
            break
        new = n + step
        done += 1
        i, j = ends[weakest, 0], ends[weakest, 1]
        children[step, 0], children[step, 1] = i, j
        costs[step] = cost[weakest]
        alive[weakest] = False
        for k in range(regions.shape[1]):
            regions[new, k] = regions[i, k] + regions[j, k]
        perimeters[new] = perimeters[i] + perimeters[j] - 2 * borders[weakest, 0]
        n_stale = 0
        for old in (i, j):
            half = first[old]
            while half >= 0:
                next_half = following[half]
                e = half // 2
                if alive[e]:
                    other = ends[e, 1 - half % 2]
                    if parallel[other] >= 0:
                        for k in range(borders.shape[1]):
                            borders[parallel[other], k] += borders[e, k]
                        alive[e] = False
                    else:
                        parallel[other] = e
                        ends[e, half % 2] = new
                        following[half] = first[new]
                        first[new] = half
                        stale[n_stale] = e
                        n_stale += 1
                half = next_half
        for s in range(n_stale):
            e = stale[s]
            parallel[ends[e, 0]] = -1
            parallel[ends[e, 1]] = -1
    return children, costs, done, written, strengths
