from .curves import ThresholdDisplay as ThresholdDisplay
from .factors import (
    ComponentsDisplay as ComponentsDisplay,
    ReconstructionDisplay as ReconstructionDisplay,
    ViewUsageDisplay as ViewUsageDisplay,
)
from .fits import (
    ConvergenceDisplay as ConvergenceDisplay,
    LossDisplay as LossDisplay,
    RankDisplay as RankDisplay,
)
from .pictures import (
    AnnotationDisplay as AnnotationDisplay,
    ForegroundDisplay as ForegroundDisplay,
    SegmentationDisplay as SegmentationDisplay,
)
