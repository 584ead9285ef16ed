from .harness import Study as Study, evaluate as evaluate
from .settings import (
    Comparison as Comparison,
    DetectorConditions as DetectorConditions,
    FaceConditions as FaceConditions,
    Labels as Labels,
    RandomSplits as RandomSplits,
    ViewConditions as ViewConditions,
)
