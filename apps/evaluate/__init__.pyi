from .harness import Evaluation as Evaluation, Study as Study, evaluate as evaluate
from .settings import (
    Comparison as Comparison,
    FaceConditions as FaceConditions,
    RandomSplits as RandomSplits,
)
