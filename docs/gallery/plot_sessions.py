"""
Sessions of somebody else, with reasons
=======================================

A user is known by the commands of earlier sessions. ``visionnmf masquerade`` reads histories and logs.
"""

import numpy as np
from matplotlib import pyplot as plt

from visionnmf.apps.masquerade import SessionScorer
from visionnmf.plotting import ThresholdDisplay

HABITS = {
    "ann": "ls cd vim make gcc gdb git ssh grep less",
    "bob": "ls cd python pip jupyter git curl tar top rm",
}
rng = np.random.default_rng(0)


def session(user):
    """Return a hundred commands as this user types them: some often, some hardly ever."""
    own = HABITS[user].split()
    chances = 1 / np.arange(1, len(own) + 1)
    return rng.choice(own, size=100, p=chances / chances.sum()).tolist()


scorer = SessionScorer().fit([session("ann") for _ in range(60)])
new = [session("ann") for _ in range(30)] + [session("bob") for _ in range(30)]
ThresholdDisplay.from_predictions([0] * 30 + [1] * 30, scorer.anomaly_score(new), threshold=-scorer.offset_)
plt.show()

# %%
# Why the first session of the other user is unlike ann's:
for reason in scorer.explain(new[30], top=3):
    print(reason.sentence)
