from .fitting import (
    fit_views as fit_views,
    impute_views as impute_views,
    transform_views as transform_views,
)
from .settings import ViewFit as ViewFit
from .view_model import Preparation as Preparation, ViewModel as ViewModel, load as load, save as save
