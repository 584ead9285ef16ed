from .log_formats import Event as Event, read_events as read_events
from .scoring import SessionResult as SessionResult, score as score
from .session_cutter import Origin as Origin, Session as Session, sessions as sessions
from .session_scorer import Reason as Reason, SessionScorer as SessionScorer
from .settings import (
    Judging as Judging,
    LogSource as LogSource,
    ScorerSettings as ScorerSettings,
    SessionCutting as SessionCutting,
)
from .store import MasqueradeModel as MasqueradeModel, load as load, save as save
from .training import train as train
