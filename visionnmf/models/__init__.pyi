from .conservative import ConservativeNMF as ConservativeNMF
from .model_files import load_model as load_model
from .multiview import MultiviewNMF as MultiviewNMF
from .multiview.classifier import ViewClassifier as ViewClassifier
from .nmf import NMF as NMF
from .online import OnlineNMF as OnlineNMF
from .penalty import Penalty as Penalty
from .projective import ProjectiveNMF as ProjectiveNMF
from .selection import (
    LossSelection as LossSelection,
    RankSelection as RankSelection,
    select_loss as select_loss,
    select_rank as select_rank,
)
from .stream import Checkpoint as Checkpoint, fit_stream as fit_stream
from .symmetric import SymmetricNMF as SymmetricNMF
