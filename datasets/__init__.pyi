from ._corruptions import (
    CORRUPTIONS as CORRUPTIONS,
    CorruptedLowRank as CorruptedLowRank,
    corrupt as corrupt,
    make_corrupted_low_rank as make_corrupted_low_rank,
)
from ._faces import Faces as Faces, load_faces as load_faces
from ._fetch import (
    cache_folder as cache_folder,
    fetch_orl as fetch_orl,
    fetch_yale as fetch_yale,
    fetch_yaleb as fetch_yaleb,
)
from ._mosaic import Mosaic as Mosaic, make_mosaic as make_mosaic
from ._surveillance import (
    Surveillance as Surveillance,
    SurveillanceVideo as SurveillanceVideo,
    iter_surveillance as iter_surveillance,
    load_surveillance as load_surveillance,
    make_surveillance as make_surveillance,
)
from ._views import PlantedViews as PlantedViews, make_views as make_views
