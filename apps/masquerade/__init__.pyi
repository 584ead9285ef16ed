from .baselines import (
    EigenCooccurrence as EigenCooccurrence,
    MexPereraNMF as MexPereraNMF,
    NaiveBayes as NaiveBayes,
    WangNMF as WangNMF,
)
from .evaluation import Evaluation as Evaluation, evaluate as evaluate, roc_summary as roc_summary
from .event_formats import to_cef as to_cef, to_ecs as to_ecs
from .log_formats import Event as Event, read_events as read_events
from .scoring import SessionResult as SessionResult, score as score
from .session_cutter import Origin as Origin, Session as Session, sessions as sessions
from .session_scorer import Reason as Reason, SessionScorer as SessionScorer
from .settings import (
    DetectorComparison as DetectorComparison,
    Following as Following,
    Judging as Judging,
    LogSource as LogSource,
    ScorerSettings as ScorerSettings,
    SessionCutting as SessionCutting,
)
from .store import MasqueradeModel as MasqueradeModel, load as load, save as save
from .training import MasqueradeTrained as MasqueradeTrained, train as train
