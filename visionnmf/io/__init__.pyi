from .images import (
    decode_image as decode_image,
    read_image as read_image,
    read_photograph as read_photograph,
    sample_names as sample_names,
    write_image as write_image,
)
from .inputs import (
    expand_images as expand_images,
    expand_inputs as expand_inputs,
    find_files as find_files,
    is_live as is_live,
    pictures_of as pictures_of,
    place_results as place_results,
    regular_file as regular_file,
    stem_of as stem_of,
    takes_files as takes_files,
)
from .keywords import (
    clean_words as clean_words,
    read_keywords as read_keywords,
    sidecar_of as sidecar_of,
    write_sidecar as write_sidecar,
)
from .matlab_files import read_mat as read_mat
from .npz_files import read_arrays as read_arrays, write_arrays as write_arrays
from .outputs import (
    check_outputs as check_outputs,
    check_outside as check_outside,
    check_parents as check_parents,
    output_file as output_file,
    output_folder as output_folder,
    record_of as record_of,
    recording as recording,
    replacing_since as replacing_since,
    together as together,
)
from .pixel_conversion import resize_grey as resize_grey, to_grey8 as to_grey8
from .tables import write_csv as write_csv
from .video.cutting import cut_video as cut_video
from .video.live import LiveReader as LiveReader
from .video.reader import (
    PictureSequence as PictureSequence,
    VideoReader as VideoReader,
    open_video as open_video,
)
from .video.writer import VideoWriter as VideoWriter
