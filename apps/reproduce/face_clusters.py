"""Clusters of people by k-means on the codes of a model, as in section 5.2 of the MahNMF paper (Guan et al. 2012)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.cluster import KMeans

from visionnmf import NMF
from visionnmf.apps.faces.clustering import whitened_codes
from visionnmf.apps.faces.images import flat_blocks
from visionnmf.datasets import Faces, corrupt
from visionnmf.metrics import clustering_accuracy, clustering_information

from .face_methods import Condition

STARTS = 10  # of k-means


def cluster_people(
    faces: Faces,
    n_people: int,
    condition: Condition,
    models: Mapping[str, NMF],
    trial: int,
    *,
    most: int | None = None,
    masked: Sequence[str] = (),
) -> dict[str, tuple[float, float]]:
    """Cluster images of people drawn at random by k-means on the codes of each model, at most `most` images of each.

    `trial` is the seed, and `condition` the kind and severity of the corruption. Models named in `masked` do not see
    opaque blocks. Returns the accuracy, 0 to 1, and the mutual information of the clusters for each model.
    """
    rng = np.random.default_rng(trial)
    people = rng.choice(np.unique(faces.labels), n_people, replace=False)
    chosen = np.sort(np.concatenate([np.flatnonzero(faces.labels == person)[:most] for person in people]))
    truth = faces.labels[chosen]
    images = corrupt(faces.images[chosen], *condition, random_state=trial)
    X = images.reshape(len(images), -1).astype(np.float32)
    shown = ~flat_blocks(images, 255).reshape(X.shape) if masked else None  # 0 in opaque, even blocks; 255 is white
    found = {}
    for name, model in models.items():
        model.set_params(random_state=trial)
        codes = model.fit_transform(X, weights=shown if name in masked else None)
        means = KMeans(n_people, n_init=STARTS, random_state=trial)
        # scaled as if components had norm 1, whitened, and of unit norm, as the application compares codes
        labels = means.fit_predict(whitened_codes(codes, model.components_))
        found[name] = clustering_accuracy(truth, labels), clustering_information(truth, labels)
    return found
