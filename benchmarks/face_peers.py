"""What the default rule of the recogniser, its rule "residual" and six methods on the images as they are identify.

    python benchmarks/face_peers.py peers ORL [SPLITS]

The data sets are those of ``faces.py``, with DIGITS and MNIST. Constants were chosen on splits 0 and 1 of ORL, Extended
Yale B, DIGITS and MNIST; reported figures begin with split 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _main import main
from faces import FILES, FIRST, load
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from visionnmf.apps.evaluate import FaceConditions
from visionnmf.apps.evaluate.faces import FaceSplit, make_split
from visionnmf.apps.evaluate.robust_pca import rpca
from visionnmf.apps.faces import FaceRecognizer
from visionnmf.apps.faces.distances import ClassResidual

CONDITIONS = ("none", "occlusion:12", "salt_and_pepper:0.3", "gaussian:40")
SPLITS = 3
OBJECTS_TESTED = 40  # test images of each digit
DIMENSIONS = 200  # of PCA before discriminant analysis


class Crc(ClassResidual):
    """Collaborative representation with the ridge of its paper."""

    def __init__(self) -> None:
        super().__init__(0.001)

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the nearest person on each image."""
        return self.distances(X).argmin(axis=1)


def peers(name: str = "ORL", splits: int = 0) -> None:
    """Print the accuracies on clean test images, and on test images that are corrupted like the training images."""
    faces = load(name)
    plan = FaceConditions(both=True, most_test=10 if name in FILES else OBJECTS_TESTED)
    for condition in CONDITIONS:
        if name == "DIGITS" and condition.startswith("occlusion"):  # a block would cover all of a digit
            continue
        found: dict[tuple[str, str], list[float]] = {}
        for number in range(FIRST, FIRST + (splits or SPLITS)):
            task = make_split(faces, condition, number, plan)
            for method, predict in learnt(task, number).items():
                for test, images in task.tests.items():
                    shares = found.setdefault((test, method), [])
                    shares.append(100 * float((predict(images) == task.answers).mean()))
        for test in task.tests:
            cells = [f"{one[1]} {np.mean(v):.1f} ± {np.std(v):.1f}" for one, v in found.items() if one[0] == test]
            print(f"{name}, {condition}, {test}: {', '.join(cells)}", flush=True)


def learnt(task: FaceSplit, seed: int) -> dict[str, Any]:
    """Return by the name of a method the function from images to people that it has learnt."""
    settings = {"image_shape": task.image_shape, "calibrate": False, "random_state": seed}
    rules = {rule: FaceRecognizer(rule=rule, **settings) for rule in ("auto", "residual")}
    discriminants = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    dimensions = min(DIMENSIONS, len(task.train) - 1, task.train.shape[1])
    machine = make_pipeline(StandardScaler(), SVC(kernel="linear"))
    others = {
        "nearest image": KNeighborsClassifier(1),
        "CRC": Crc(),
        "LDA": discriminants,
        "PCA and LDA": make_pipeline(PCA(dimensions, random_state=0), clone(discriminants)),
        "SVM": machine,
    }
    found = {name: method.fit(task.train, task.people).predict for name, method in (rules | others).items()}
    separate = make_pipeline(StandardScaler(), SVC(kernel="linear"))
    return found | {"RPCA and SVM": separate.fit(rpca(task.train).low_rank, task.people).predict}


if __name__ == "__main__":
    main({"peers": peers}, globals(), {"CONDITIONS": CONDITIONS[2:3], "SPLITS": 1})
