from .learning import StreamReport as StreamReport, learn_stream as learn_stream
from .settings import (
    Checkpoints as Checkpoints,
    ComponentsPicture as ComponentsPicture,
    SampleSource as SampleSource,
    StreamLearning as StreamLearning,
)
