"""Every tuning constant of the background application, with its unit and its effect.

They were chosen on the clips that `benchmarks/background.py` marks as "chosen on" and on made clips.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SampleTuning:
    """How many frames are held to learn from."""

    max_bytes: int = 340 << 20  # of frames and differences; large frames therefore take fewer
    block_pixels: int = 2048  # pixels a thread works on at a time; has no effect on results


@dataclass(frozen=True)
class SmallFramesTuning:
    """Small frames, which are enlarged to about the size that lengths in pixels were chosen for."""

    small: int = 160 * 120  # pixels: frames with fewer are enlarged
    enlarged: int = 240 * 180  # pixels that they then have, about


@dataclass(frozen=True)
class NoiseTuning:
    """The noise of a pixel: the unit in which residuals are measured."""

    # Differences of neighbouring frames show sensor noise, but not compression that skips quiet blocks, soft shadows
    # or reflections. The floor stands for those. They also show foreground where it passes all the time, hence the
    # ceiling. Noise above it does no harm where it is independent, because scores are smoothed.
    floor: float = 6.0  # grey levels
    ceiling: float = 7.0  # grey levels
    # Shadows and reflections are shares of the light, so that the floor is lower in the dark, as far as the noise of
    # the camera allows. A higher share or a higher factor finds less in the dark.
    share_of_light: float = 0.08  # of the background: the floor of a dark pixel
    times_camera: float = 4.25  # times the noise of the camera: no floor is below that
    lowest: float = 3.0  # grey levels: no floor is below that, because compression may hide all noise
    # Median of max(|x - a|, |x - b|) for independent normal x, a, b of standard deviation 1.
    normal_change: float = 1.418


@dataclass(frozen=True)
class LearningTuning:
    """The alternation between the scene and the codes of the frames."""

    code_pixels: int = 2048  # random pixels that determine the codes; more do no better
    voting_share: int = 8  # one in so many of their values chooses the code to start from
    rounds: int = 3  # alternations of components and codes; more change nothing
    scene_sweeps: int = 1  # of a single component, whose medians one sweep finds
    illumination_sweeps: int = 10
    code_sweeps: int = 5
    median_codes: int = 15  # codes whose backgrounds are averaged into `background_`
    ahead_pixels: int = 4 << 20  # pixels of frames that may wait to be separated, but at least a frame a thread


@dataclass(frozen=True)
class IlluminationTuning:
    """Illumination components: smooth fields on a coarse grid."""

    grid: int = 8  # cells along the longer side; fewer follow the edges of light worse
    cell_pixels: int = 8  # a cell with fewer bright pixels takes the factor of the whole frame
    dark: float = 16  # grey levels: pixels as dark as this say little about illumination
    kept: float = 0.5  # a cell is believed when it leaves at most this share of what one scene leaves unexplained
    needed: float = 0.0005  # of all values: components that explain fewer beyond a single factor are dropped
    hopeless: float = 0.00005  # of all values: the same test after the first round, to stop early


@dataclass(frozen=True)
class MaskTuning:
    """From scores to a mask."""

    one: int = 102  # the byte that stands for the threshold: scores are cut at 2.5 times it, or strong objects widen
    coarse: int = 4  # pixels of the frame to one of the neighbourhood
    smoothing: float = 1.5  # pixels: standard deviation of the smoothing of the scores
    neighbourhood: float = 6.0  # pixels: standard deviation of the neighbourhood whose foreground moves the threshold
    darkest: float = 0.7  # share of the light that a shadow leaves at least
    shadow_weight: float = 0.5  # of the part of a residual that a shadow explains
    gap: int = 11  # pixels, in pictures of `width` or less: the closing fills gaps narrower than this; 0 for none
    width: int = 320  # pixels: in wider pictures `gap` grows with the width
    gap_evidence: float = 0.5  # of the threshold: pixels in gaps that score less stay background
    hole: float = 0.01  # of the picture: background that foreground encloses is filled up to this area
    median_threshold: float = 25  # grey levels: the usual threshold of the temporal-median baseline


@dataclass(frozen=True)
class CastShadowTuning:
    """Cast shadows: parts of a foreground region that show the background, darker."""

    window: int = 5  # pixels, once wide pictures are reduced: the side of squares that one factor must explain
    darkest: float = 0.25  # times the background: a darker part is no shadow
    lightest: float = 0.97  # times the background
    deviation: float = 2.0  # times the noise: what the factor of a window leaves at most
    spread: float = 0.2  # standard deviation of the factors in a shadow, at most
    texture: float = 0.6  # correlation of the details of frame and background, at least
    colour: float = 0.03  # by which the factors of the channels differ from their mean, at most
    near: float = 3.0  # times the noise: pixels at the border that the shadow's factor explains
    attached: float = 0.8  # of a region: larger parts are no shadow of the rest
    least_pixels: int = 20  # once wide pictures are reduced: smaller parts say too little


@dataclass(frozen=True)
class CameraShakeTuning:
    """Camera shake: registration of frames."""

    largest: int = 640  # pixels of the longer side of what is compared; larger pictures are reduced
    neighbourhood: float = 4.0  # pixels: standard deviation; what differs from it is a detail
    strongest: float = 8.0  # grey levels: stronger details count as much
    negligible: float = 0.1  # pixels: smaller displacements count as none
    margin: int = 8  # pixels at the border that are not compared
    steps: int = 10  # of the last improvement, at most
    cap: float = 40.0  # grey levels: larger differences count as much, and not in the last improvement
    worth: float = 0.95  # of the difference: a shift that leaves more is not applied
    asked: int = 24  # frames that decide whether the camera shakes
    shakes: float = 0.3  # pixels: the median displacement above which it does
    explained: float = 0.15  # of the difference at contours: shifts that explain less are no shake
    halves: float = 0.7  # of the displacement: where two halves of the picture differ by more, it is no shake
    least_half: float = 0.1  # of the squared gradients: a half of the picture with fewer says nothing
    fewest_frames: int = 8
    smallest: int = 48  # pixels of the shorter side


@dataclass(frozen=True)
class DynamicBackgroundTuning:
    """Dynamic background: leaves, water and reflections that move without going anywhere."""

    frames: int = 40  # that are measured, fewer of large pictures
    fewest_frames: int = 10
    values: int = 32 << 20  # pixels of all measured frames, or `fewest_frames` frames
    held: int = 4 << 20  # pixels measured at a time, or one frame; bounds the memory of large pictures
    width: int = 320  # pixels: the width of pictures that the smoothing is chosen for
    smoothing: float = 3.0  # pixels: standard deviation
    survives: float = 0.29  # share of the energy that survives smoothing, below which the scene moves in place
    survives_range: float = 0.12  # how far below it that is certain
    energy: float = 4.0  # squared grey levels, of rounding
    restless_frames: float = 0.5  # of the frames: what differs less often does not move in place
    restless: float = 1.0  # times the noise: what differs by less does not either
    least_share: float = 0.02  # of the picture: less may be chance
    narrowest: int = (
        160  # pixels, once small frames are enlarged: in smaller pictures objects are no larger than the smoothing
    )
    mean_cap: float = 60.0  # grey levels: residuals are smoothed as if they were no larger
    cap: float = 40.0  # grey levels: larger residuals count as much in their energy
    smooth_cap: float = 25.0  # grey levels: larger smoothed residuals count as much
    neighbourhood: int = 11  # pixels, of the means of the energies
    feather: int = 9  # pixels, of the border of the result
    quantile: float = 0.75  # of the residual over the clip, which gives the noise there
    wider: float = 1.1  # times that quantile
    widest: float = 30.0  # grey levels: the most that this noise becomes
    typical: float = 2.0  # times the median of the smoothed residual: its noise
    least: float = 6.0  # grey levels: the least that this noise becomes
    block_pixels: int = 4096  # pixels a thread works on at a time; has no effect on results


@dataclass(frozen=True)
class AlternatingModesTuning:
    """Alternating modes: pixels that show two levels in turn, one of which is the scene."""

    frames: int = 60  # that are measured; more change nothing
    fewest_frames: int = 32  # of fewer frames a level says too little
    illumination: tuple[float, float] = (0.75, 4 / 3)  # times the median's: frames that show levels of one scene
    share_in_illumination: float = 0.8  # of the frames that must be in that range
    near: float = 10.0  # grey levels: samples of one level
    apart: float = 20.0  # grey levels between two levels
    held: float = 0.55  # share of the support beyond which a level stays what it is
    stronger: float = 1.3  # times the support of the present level, of one that replaces it
    second_share: float = 0.1  # of the support, of a second level
    sharpen: float = 9.0  # stillness is weighed as with a third of the noise
    region_share: float = 0.002  # of the picture: smaller regions have too short a contour
    contour: int = 3  # pixels between the two sides of a contour
    contour_pixels: int = 10  # the fewest of a contour that says something
    contrast_cap: float = 60.0  # grey levels: a larger contrast counts as much
    smoother: float = 0.6  # times the contrast of the other level at the contour: a level that is the scene
    follows: float = 0.6  # of the frames, more with than against the others: a pixel that shows what its region shows
    course_pixels: int = 30_000  # of a region, evenly spaced, that tell when its levels are seen
    changes: int = 4  # changes of a region that something which rests can cause, passers-by included


@dataclass(frozen=True)
class OnlineTuning:
    """The online model: one step a frame."""

    gain_pixels: int = 2048  # random pixels that determine the gain
    rows: int = 4  # each row is learnt from every fourth frame
    value_seconds: float = 4.0  # the scene's values follow within these
    start_weight: float = 2.0  # frames that one of the warm-up counts as where the scene explains all of these
    start_power: int = 3  # of the share of them that it explains
    ghost_frames: int = 5  # one in so many is searched for objects that were in the scene and have left
    ghost_seconds: float = 1.0  # for which what is behind them must have been seen
    dark: float = 16  # grey levels: darker pixels say little about illumination
    held_frames: int = 100  # during the warm-up, at most
    held_bytes: int = 200 << 20
    longest_gap: float = 1.0  # seconds between frames: what was not seen is not forgotten
    new_share: float = 0.5  # of the pixels that no gain explains, from which on the scene may be a new one
    new_seconds: float = 1.0  # for which that must last
    still_share: float = 0.8  # of the pixels that must be still meanwhile
    new_weight: float = 0.01  # of all weights that is left then


@dataclass(frozen=True)
class UnseenTuning:
    """What a camera cannot see; chosen on half of the real clips (docs/decisions/background.md) and on made ones."""

    blank: float = 2.0  # grey levels: standard deviation of the pixels below which a frame is no picture
    black: float = 16.0  # grey levels: such a frame is black
    blank_seconds: float = 0.5  # that it lasts at least
    losses: int = 3  # shorter ones, at least, that add up to a warning
    lost_seconds: float = 1.0  # in all, at least
    still: float = 0.02  # of the values: fewer that change are no change
    restless: float = 3.0  # frames with changes that a frozen picture may have, as compression has at key frames
    calms: float = 0.1  # of such a frame, by which each frame without changes makes up for it
    other_level: int = 16  # grey levels: larger differences are no matter of compression
    other_pixels: float = 0.003  # of the values: more of these show something else
    much_new: float = 0.1  # of the values change with the second key frame of a frozen picture
    all_new: float = 0.6  # of the values: more change with each key frame of a camera
    equal: float = 0.6  # of the frames are equal to the one before, if frozen and compressed
    all_equal: float = 0.95  # the same without a sign of compression
    noisy: float = 0.2  # of the values: more that change are noise
    noisy_frames: float = 0.5  # of the other frames have noise, so that one without is doubtful
    fewest_noisy: int = 20
    whole: float = 0.95  # of the frames: a picture that stands still for all of the clip is doubtful without noise
    frozen_seconds: float = 4.0  # that it lasts at least
    frozen_frames: int = 50
    renewed: float = 0.4  # of the values: more change with a key frame, by which these are known
    stirred: float = 0.04  # of the values: more change with each, unless the picture is frozen
    periods: int = 3  # seconds between key frames are known from so many
    calm_periods: float = 4.0  # such times without, after which the picture is frozen
    calm_seconds: float = 15.0  # or so long, if that is longer, as some encoders have periods of 10 to 12 s
    check: float = 0.5  # seconds between two comparisons with the scene
    detail: float = 2.0  # grey levels: standard deviation of a block that has details
    alike: float = 0.6  # correlation of two blocks that look alike
    other: float = 0.4  # of the blocks look alike: with fewer the picture is another one
    steady: float = 0.8  # of the blocks are as in the comparison before: the picture stands still
    steady_checks: float = 1 / 3  # of the comparisons, or it is not the picture that has changed, but what is before it
    changed_seconds: float = 3.0  # that another picture lasts at least
    changed_checks: int = 6
    adopted: float = 60.0  # seconds after which it is the scene that the next is compared with
    follows: float = 10.0  # seconds in which the scene follows what is seen
    fewest_blocks: int = 6  # with details: fewer say nothing
    grey: float = 1.0  # grey levels between the channels of a frame's pixels, on average: below, it has no colour
    coloured: float = 4.0  # the same of the median pixel, on average over the other frames; colour clips have 6.6
    # Grey levels of the background's 2nd percentile, which fog lifts, and of the range to the 98th. Chosen on clips in
    # made fog (64 to 128, and 8 to 126), and on quarters of clear ones.
    fog_black: float = 60
    fog_range: float = 110
    too_dark: float = 45  # grey levels of the 98th percentile: F of three darkened clips falls from 0.97 to 0.5
    dark_seconds: float = 5.0  # that it lasts at least
    low_threshold: float = 1.5  # `python benchmarks/background.py fog`


@dataclass(frozen=True)
class BaselineTuning:
    """The methods to compare with, as in the literature."""

    n_frames: int = 100  # evenly spaced frames to learn from
    code_pixels: int = 1024  # random pixels that determine a frame's codes
    code_iterations: int = 50
    rank: int = 2
    outliers: float = 0.1  # share of the entries that are sparse in GoDec
    tolerance: float = 1e-4  # relative; grey levels are whole numbers
    history: int = 500  # frames, of MOG2 and KNN


@dataclass(frozen=True)
class Tuning:
    """All constants, by part."""

    sample: SampleTuning = SampleTuning()
    small_frames: SmallFramesTuning = SmallFramesTuning()
    noise: NoiseTuning = NoiseTuning()
    learning: LearningTuning = LearningTuning()
    illumination: IlluminationTuning = IlluminationTuning()
    mask: MaskTuning = MaskTuning()
    cast_shadows: CastShadowTuning = CastShadowTuning()
    camera_shake: CameraShakeTuning = CameraShakeTuning()
    dynamic_background: DynamicBackgroundTuning = DynamicBackgroundTuning()
    alternating_modes: AlternatingModesTuning = AlternatingModesTuning()
    online: OnlineTuning = OnlineTuning()
    unseen: UnseenTuning = UnseenTuning()
    baselines: BaselineTuning = BaselineTuning()


TUNING = Tuning()
