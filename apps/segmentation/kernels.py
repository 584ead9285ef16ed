"""The compiled loops of the segmentation: flooding a watershed, and merging regions border by border.

Callers check and allocate: :func:`.regions.watershed` calls :func:`flood`, :func:`.regions.merge_regions` calls
:func:`merge`. The columns of the sums over regions and borders are defined here, because compiled code keeps the
constants of other files as they were when it was compiled. Node k of a tree is region k for k < n, and merge k - n
after that. Rows are added and copied entry by entry: numba takes twice as long to compile operations on whole rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from visionnmf._jit import kernel

CUES = ("lab 1", "lab 2", "L 2", "ab 2")
"""The cues of a border: what changes across it, and the width of the blur in pixels; see :mod:`.cues`."""

# Columns of a region's sums: pixels, sides on the frame, energy, CIELAB, its squares, then the histograms of L, of a
# and b, and the network's boundary and vectors.
SIZE, FRAME, ENERGY, LAB, LAB_SQUARED, HISTOGRAMS = 0, 1, 2, 3, 6, 9
L_START, AB_START, BOUNDARY, VECTOR, N_SUMS = 9, 19, 35, 36, 44

FEATURES = (
    *(f"mean {cue}" for cue in CUES),
    "mean energy",
    "lightness difference",
    "chroma difference",
    "colour difference",
    "colour difference / spread",
    "chi-squared of L",
    "chi-squared of ab",
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
    "mean boundary",
    "lower boundary within",
    "higher boundary within",
    "vector distance",
    "boundary of the border - within",
    "picture's boundary",
)
"""What describes a border; :func:`_describe` writes them in this order."""

N_CUES, N_FEATURES = len(CUES), len(FEATURES)


class RegionGraph(NamedTuple):
    """The regions of a picture and their borders, as sums that :func:`merge` adds up; it overwrites them.

    `regions` (2 n - 1, N_SUMS) and `perimeters` (2 n - 1,) have n rows of regions and room for the merges. `ends`
    (m, 2) are the regions on the two sides of each border, `borders` (m, 3 + N_CUES) its length, energy, boundary
    and cues. `picture` has the number of pixels, the mean energy, the spread of the colours and the mean boundary.
    """

    regions: Any
    perimeters: Any
    ends: Any
    borders: Any
    picture: Any


class BorderTrees(NamedTuple):
    """A sum of regression trees, all nodes in one list.

    `roots` int32 (n_trees,); for each node `features` int8, the feature that it asks for, negative in a leaf;
    `thresholds` float32, up to which a row goes left; `children` int32, the left child, which the right one follows;
    `values` float32, what a leaf adds.
    """

    roots: Any
    features: Any
    thresholds: Any
    children: Any
    values: Any


# --- the watershed ----------------------------------------------------------------------------------------------------


@kernel
def flood(levels, labels, open_pixels, keys, pixels, width):  # type: ignore[no-untyped-def]
    """Flood a picture from its markers: each pixel gets the label of the basin that reaches it first.

    Pixels are taken from a binary heap by their level, then by the time at which they entered it, with the treatment of
    ties of scikit-image's ``watershed`` with four neighbours. `levels` (int64, >= 0, multiples of 2^32), `labels` (0
    where nothing is marked, filled in place) and `open_pixels` are flat pictures of `width` columns with a frame of
    pixels that are not open. `keys` and `pixels` are the heap, with room for every pixel.
    """
    n_queued = 0
    for start in range(len(labels)):
        if labels[start] != 0:
            n_queued = _push(keys, pixels, n_queued, levels[start], start)
    time = 0
    while n_queued > 0:
        pixel = pixels[0]
        reached = keys[0] & ~0xFFFFFFFF  # the level without the time; water comes no lower than it has risen
        n_queued = _pop(keys, pixels, n_queued)
        for step in (-width, -1, 1, width):
            neighbour = pixel + step
            if open_pixels[neighbour] and labels[neighbour] == 0:
                time += 1
                labels[neighbour] = labels[pixel]
                n_queued = _push(keys, pixels, n_queued, max(levels[neighbour], reached) + time, neighbour)


@kernel(part=True)  # only other kernels call it
def _push(keys, pixels, place, key, pixel):  # type: ignore[no-untyped-def]
    """Add an entry to a binary heap of `place` entries, the least key first, and return how many there are now."""
    # the children of entry k are entries 2 k + 1 and 2 k + 2; larger parents move down until the new entry fits
    n_queued = place + 1
    while place > 0:
        parent = (place - 1) >> 1
        if key >= keys[parent]:
            break
        keys[place], pixels[place] = keys[parent], pixels[parent]
        place = parent
    keys[place], pixels[place] = key, pixel
    return n_queued


@kernel(part=True)  # only other kernels call it
def _pop(keys, pixels, n_queued):  # type: ignore[no-untyped-def]
    """Remove the first entry of a binary heap, the one with the least key, and return how many are left."""
    # the last entry takes the first place, and sinks until no child has a smaller key
    n_queued -= 1
    key, pixel = keys[n_queued], pixels[n_queued]
    place = 0
    while 2 * place + 1 < n_queued:
        child = 2 * place + 1
        if child + 1 < n_queued and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[place], pixels[place] = keys[child], pixels[child]
        place = child
    keys[place], pixels[place] = key, pixel
    return n_queued


# --- the strength of a border -----------------------------------------------------------------------------------------


@kernel(part=True)  # only other kernels call it
def _chi_squared(regions, i, j, start, stop):  # type: ignore[no-untyped-def]
    """Return the chi-squared difference of the histograms of regions i and j."""
    total = 0.0
    for k in range(start, stop):
        p = regions[i, k] / regions[i, SIZE]
        q = regions[j, k] / regions[j, SIZE]
        if p + q > 0:
            total += (p - q) * (p - q) / (p + q)
    return total / 2


@kernel(part=True)  # only other kernels call it
def _spread(regions, i):  # type: ignore[no-untyped-def]
    """Return the standard deviation of the CIELAB colours of region i, a row of sums over its pixels."""
    total = 0.0
    for k in range(3):
        mean = regions[i, LAB + k] / regions[i, SIZE]
        total += max(regions[i, LAB_SQUARED + k] / regions[i, SIZE] - mean * mean, 0.0)
    return np.sqrt(total)


@kernel(part=True)  # only other kernels call it
def _describe(graph, e, out):  # type: ignore[no-untyped-def]
    """Write the features of border e to `out`, from which trees predict its strength."""
    # the smaller region comes first, so that the order of the regions is irrelevant
    regions, perimeters, picture = graph.regions, graph.perimeters, graph.picture
    i, j = graph.ends[e, 0], graph.ends[e, 1]
    if regions[i, SIZE] > regions[j, SIZE]:
        i, j = j, i
    small, large = regions[i, SIZE], regions[j, SIZE]
    length = graph.borders[e, 0]
    for k in range(N_CUES):
        out[k] = graph.borders[e, 3 + k] / length
    at = N_CUES  # the features after the cues begin here
    energy = graph.borders[e, 1] / length
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
    out[at + 4] = difference / (pooled + 2)  # 2 units of CIELAB: the spread of a flat region is noise
    out[at + 5] = _chi_squared(regions, i, j, L_START, AB_START)
    out[at + 6] = _chi_squared(regions, i, j, AB_START, BOUNDARY)
    out[at + 7] = np.log(small / picture[0])
    out[at + 8] = np.log(large / picture[0])
    out[at + 9] = length / np.sqrt(small)
    out[at + 10] = length / max(min(perimeters[i], perimeters[j]), 1.0)
    within_i, within_j = regions[i, ENERGY] / small, regions[j, ENERGY] / large
    out[at + 11] = min(within_i, within_j)
    out[at + 12] = max(within_i, within_j)
    out[at + 13] = energy / ((within_i + within_j) / 2 + 0.05)  # flat regions have no energy: 0.05 limits the ratio
    out[at + 14] = min(spread_i, spread_j)
    out[at + 15] = max(spread_i, spread_j)
    out[at + 16] = regions[i, FRAME] / np.sqrt(small)
    out[at + 17] = regions[j, FRAME] / np.sqrt(large)
    # the outline of both regions together, the sides on the picture's frame included
    around = perimeters[i] + perimeters[j] - 2 * length + regions[i, FRAME] + regions[j, FRAME]
    out[at + 18] = np.sqrt(small + large) / max(around, 1.0)
    out[at + 19] = difference / (picture[2] + 2)
    out[at + 20] = picture[1]
    out[at + 21] = picture[2]
    boundary = graph.borders[e, 2] / length
    within_i, within_j = regions[i, BOUNDARY] / small, regions[j, BOUNDARY] / large
    out[at + 22] = boundary
    out[at + 23] = min(within_i, within_j)
    out[at + 24] = max(within_i, within_j)
    total = 0.0
    for k in range(VECTOR, N_SUMS):
        total += (regions[i, k] / small - regions[j, k] / large) ** 2
    out[at + 25] = np.sqrt(total)
    out[at + 26] = boundary - (within_i + within_j) / 2
    out[at + 27] = picture[3]


@kernel
def predict(row, trees):  # type: ignore[no-untyped-def]
    """Return what the regression trees predict for a row of features: the sum of the leaves that it reaches.

    From each root a row goes down to the left child if its feature is at most the node's threshold, else to the right.
    """
    total = 0.0
    for node in trees.roots:
        while trees.features[node] >= 0:
            node = trees.children[node] + (row[trees.features[node]] > trees.thresholds[node])
        total += trees.values[node]
    return total


# --- merging ----------------------------------------------------------------------------------------------------------


@kernel(allocates=True)  # it creates arrays
def merge(graph, trees, base, exponent, record, pairs):  # type: ignore[no-untyped-def]
    """Join two neighbouring regions of a picture after another, the pair with the weakest border first.

    Node k is region k for k < n, and the result of merge k - n after that. The strength of a border, from 0, which
    nobody would draw, to 1, is ``base + predict(features, trees)``, its cost the strength times ``share ** exponent``,
    with `share` the part of the picture that the smaller node takes. After each merge the borders of the new node are
    judged again. It ends when one node is left, or none of those that are left touch.

    `graph` is overwritten. `record` (capacity, N_FEATURES) and `pairs` (capacity, 2) are filled with the features and
    the two nodes of each border that is judged, in the order of time, until they are full.

    Returns the two nodes that each merge joins (n - 1, 2), the cost of the border at each merge (n - 1,), the number of
    merges, the number of rows of `record` in use, and the strength of each border at the start (m,).
    """
    m, n = len(graph.ends), (len(graph.regions) + 1) // 2
    # The borders of a node are a linked list of half edges: half edge 2 e + s belongs to node ends[e, s].
    following = np.full(2 * m, -1)
    first = np.full(2 * n - 1, -1)
    for half in range(2 * m):
        node = graph.ends[half // 2, half % 2]
        following[half] = first[node]
        first[node] = half
    alive = np.ones(m, np.bool_)  # borders that still divide two nodes
    cost = np.empty(m)  # strength times the power of the smaller region's share
    strengths = np.empty(m)  # at the start
    row = np.empty(N_FEATURES)
    parallel = np.full(2 * n - 1, -1)  # the border that already leads to a neighbour of the new node
    children = np.empty((n - 1, 2), np.int64)
    costs = np.empty(n - 1)
    n_merges, n_recorded = 0, 0
    stale = np.arange(m)  # borders that must be judged
    n_stale = m
    for step in range(n):  # n - 1 merges; the last step only judges the borders of the last node
        for s in range(n_stale):
            e = stale[s]
            _describe(graph, e, row)
            strength = min(max(base + predict(row, trees), 0.0), 1.0)
            i, j = graph.ends[e, 0], graph.ends[e, 1]
            smaller = min(graph.regions[i, SIZE], graph.regions[j, SIZE])
            cost[e] = strength * (smaller / graph.picture[0]) ** exponent
            if step == 0:
                strengths[e] = strength
            if n_recorded < len(record):
                for k in range(N_FEATURES):
                    record[n_recorded, k] = row[k]
                pairs[n_recorded, 0], pairs[n_recorded, 1] = i, j
                n_recorded += 1
        if step == n - 1:
            break
        weakest = -1
        for e in range(m):
            if alive[e] and (weakest < 0 or cost[e] < cost[weakest]):
                weakest = e
        if weakest < 0:
            break
        n_merges += 1
        # the sums of the two nodes are added to row n + step; `stale` gets the borders of this new node
        children[step, 0], children[step, 1] = graph.ends[weakest, 0], graph.ends[weakest, 1]
        costs[step] = cost[weakest]
        n_stale = _join(graph, weakest, n + step, alive, first, following, parallel, stale)
    return children, costs, n_merges, n_recorded, strengths


@kernel(part=True)  # only other kernels call it
def _join(graph, weakest, new, alive, first, following, parallel, stale):  # type: ignore[no-untyped-def]
    """Join the two nodes at border `weakest` to the node `new`; return how many borders the new node has."""
    # `parallel`, -1 for each node between calls, is the border that already leads from the new node to a neighbour
    regions, ends, borders = graph.regions, graph.ends, graph.borders
    i, j = ends[weakest, 0], ends[weakest, 1]
    alive[weakest] = False
    for k in range(regions.shape[1]):
        regions[new, k] = regions[i, k] + regions[j, k]
    graph.perimeters[new] = graph.perimeters[i] + graph.perimeters[j] - 2 * borders[weakest, 0]
    n_stale = 0
    for old in (i, j):
        half = first[old]
        while half >= 0:
            next_half = following[half]
            e = half // 2
            if alive[e]:
                other = ends[e, 1 - half % 2]
                if parallel[other] >= 0:  # both old nodes touch this one: their two borders become one
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
    for s in range(n_stale):  # reset the scratch; one of the two ends is the new node, where it is -1 already
        parallel[ends[stale[s], 0]] = -1
        parallel[ends[stale[s], 1]] = -1
    return n_stale
