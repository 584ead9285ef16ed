"""
Features in a pipeline
======================

Extractors and models are scikit-learn's, so a grid search chooses among them.
"""

import numpy as np
from matplotlib import pyplot as plt
from skimage import data
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from visionnmf.features import LBP

rng = np.random.default_rng(0)
textures = {"brick": data.brick(), "grass": data.grass(), "gravel": data.gravel()}
crops, names = [], []
for name, picture in textures.items():
    for row, column in rng.integers(0, 512 - 48, (60, 2)):
        crops.append(picture[row : row + 48, column : column + 48])
        names.append(name)
train, test, y_train, y_test = train_test_split(crops, names, random_state=0, stratify=names)

pipeline = make_pipeline(LBP(), StandardScaler(), LogisticRegression(max_iter=1000))
search = GridSearchCV(pipeline, {"logisticregression__C": [0.01, 0.1, 1, 10]}, cv=3).fit(train, y_train)
print(f"accuracy on new crops {search.score(test, y_test):.3f} with {search.best_params_}")

axes = plt.subplots(1, 6, figsize=(9, 1.8), layout="constrained")[1]
for ax, crop, name in zip(axes, test, search.predict(test), strict=False):
    ax.imshow(crop, cmap="gray")
    ax.set_title(name, fontsize="medium")
    ax.set_axis_off()
plt.show()
