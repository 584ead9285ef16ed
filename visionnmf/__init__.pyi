from ._version import __version__ as __version__
from .models import (
    NMF as NMF,
    Checkpoint as Checkpoint,
    ConservativeNMF as ConservativeNMF,
    MultiviewNMF as MultiviewNMF,
    OnlineNMF as OnlineNMF,
    Penalty as Penalty,
    ProjectiveNMF as ProjectiveNMF,
    SymmetricNMF as SymmetricNMF,
    ViewClassifier as ViewClassifier,
    fit_stream as fit_stream,
    load_model as load_model,
    select_loss as select_loss,
    select_rank as select_rank,
)
