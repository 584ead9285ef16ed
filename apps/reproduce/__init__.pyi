from .experiments import Experiment as Experiment, Result as Result, Row as Row, Sizes as Sizes
from .running import list_items as list_items, reproduce as reproduce
