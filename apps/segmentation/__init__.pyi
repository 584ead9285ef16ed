from .formats import (
    cut_out as cut_out,
    to_coco as to_coco,
    to_csv as to_csv,
    to_geojson as to_geojson,
    to_svg as to_svg,
)
from .hierarchy import Hierarchy as Hierarchy
from .overlays import overlay as overlay
from .paper_method import paper_segments as paper_segments
from .process import process_image as process_image
from .segmenter import SegmentationResult as SegmentationResult, segment as segment
from .settings import Outputs as Outputs, WantedSegments as WantedSegments
