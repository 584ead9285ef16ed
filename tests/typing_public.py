"""A user's code, which `make types` checks with ``mypy --strict``: every public name, and the calls of the guides."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import visionnmf
import visionnmf.apps
import visionnmf.apps.annotation
import visionnmf.apps.background
import visionnmf.apps.evaluate
import visionnmf.apps.faces
import visionnmf.apps.features
import visionnmf.apps.masquerade
import visionnmf.apps.multiview
import visionnmf.apps.reproduce
import visionnmf.apps.segmentation
import visionnmf.datasets
import visionnmf.engine.losses
import visionnmf.engine.penalties
import visionnmf.exceptions
import visionnmf.features
import visionnmf.io
import visionnmf.io.chunks
import visionnmf.metrics
import visionnmf.models
import visionnmf.plotting
from visionnmf import NMF, MultiviewNMF, OnlineNMF, Penalty, fit_stream, load_model, select_loss, select_rank
from visionnmf.apps.annotation import WordOutputs, annotate
from visionnmf.apps.background import BackgroundModel, process_video
from visionnmf.apps.faces import FaceRecognizer
from visionnmf.apps.segmentation import SegmentationResult, overlay, segment
from visionnmf.datasets import make_corrupted_low_rank, make_mosaic, make_surveillance
from visionnmf.features import FeatureExtraction
from visionnmf.io import open_video, read_image, write_image
from visionnmf.metrics import clustering_accuracy
from visionnmf.plotting import ConvergenceDisplay, SegmentationDisplay


def factors(X: NDArray[np.float32], file: Path) -> float:
    """Fit, choose, save, load and plot models."""
    model = NMF(20, penalty_W=Penalty(l1=0.1), random_state=0).fit(X)
    codes = model.transform(X)
    clean = model.inverse_transform(codes)
    model.save(file, force=True)
    loaded = load_model(file)
    print(type(loaded).__name__, select_rank(X, [2, 4]).n_components, select_loss(X).loss)
    ConvergenceDisplay.from_estimator(model).figure_.savefig(file)
    fit_stream(OnlineNMF(5), [X, X])
    first, second = MultiviewNMF(4).fit([X, X]).impute([X, None])
    return float(np.abs(clean - X).sum()) + float(np.asarray(first).sum() + np.asarray(second).sum())


def pictures(file: str) -> SegmentationResult:
    """Divide, describe and annotate pictures."""
    image = read_image(file)
    result = segment(image, n_segments=5)
    write_image("out.png", overlay(image, result.labels), force=True)
    SegmentationDisplay.from_result(result)
    FeatureExtraction(["gist"]).fit_transform([image, make_mosaic(random_state=0).image])
    report = annotate(visionnmf.apps.annotation.load("words.npz"), [file], outputs=WordOutputs(top=3))
    print(report.figures["images"], report.outputs)
    print(result.at(n_segments=3).max())
    return result


def videos(file: str) -> list[NDArray[np.uint8]]:
    """Find what moves."""
    clip = make_surveillance(random_state=0)
    masks = [result.mask for result in BackgroundModel().fit(clip.frames).apply(clip.frames)]
    with open_video(file) as frames:
        print(sum(frame.shape[0] for frame in frames))
    print(process_video(file, out=Path("out")).seconds)
    return masks


def faces(X: NDArray[np.float32], names: list[str]) -> float:
    """Recognise people."""
    found = FaceRecognizer(outliers=3, random_state=0).fit(X, names).predict(X)
    return clustering_accuracy(names, found) + float(make_corrupted_low_rank(random_state=0).clean.mean())


EVERYTHING: list[object] = [
    visionnmf.Checkpoint,
    visionnmf.ConservativeNMF,
    visionnmf.GoDec,
    visionnmf.MultiviewNMF,
    visionnmf.NMF,
    visionnmf.OnlineNMF,
    visionnmf.Penalty,
    visionnmf.ProjectiveNMF,
    visionnmf.RPCA,
    visionnmf.SymmetricNMF,
    visionnmf.ViewClassifier,
    visionnmf.__version__,
    visionnmf.fit_stream,
    visionnmf.load_model,
    visionnmf.select_loss,
    visionnmf.select_rank,
    visionnmf.features.CENTRIST,
    visionnmf.features.ColorHistogram,
    visionnmf.features.DenseHue,
    visionnmf.features.DenseSift,
    visionnmf.features.Extracted,
    visionnmf.features.Extractor,
    visionnmf.features.FeatureExtraction,
    visionnmf.features.GIST,
    visionnmf.features.HOG,
    visionnmf.features.HarrisHue,
    visionnmf.features.HarrisSift,
    visionnmf.features.KINDS,
    visionnmf.features.Kind,
    visionnmf.features.LBP,
    visionnmf.features.PRESETS,
    visionnmf.features.PatchNMF,
    visionnmf.features.RawPixels,
    visionnmf.features.check_image,
    visionnmf.features.harris_laplace,
    visionnmf.features.load_extraction,
    visionnmf.features.make_extractor,
    visionnmf.features.proximity_affinity,
    visionnmf.features.reduce_image,
    visionnmf.features.save_extraction,
    visionnmf.plotting.AnnotationDisplay,
    visionnmf.plotting.ComponentsDisplay,
    visionnmf.plotting.ConvergenceDisplay,
    visionnmf.plotting.ForegroundDisplay,
    visionnmf.plotting.LossDisplay,
    visionnmf.plotting.RankDisplay,
    visionnmf.plotting.ReconstructionDisplay,
    visionnmf.plotting.SegmentationDisplay,
    visionnmf.plotting.ThresholdDisplay,
    visionnmf.plotting.ViewUsageDisplay,
    visionnmf.metrics.clustering_accuracy,
    visionnmf.metrics.clustering_information,
    visionnmf.io.LiveReader,
    visionnmf.io.PictureSequence,
    visionnmf.io.VideoReader,
    visionnmf.io.VideoWriter,
    visionnmf.io.cut_video,
    visionnmf.io.open_video,
    visionnmf.io.read_image,
    visionnmf.io.read_keywords,
    visionnmf.io.read_mat,
    visionnmf.io.record_of,
    visionnmf.io.recording,
    visionnmf.io.replacing_since,
    visionnmf.io.sample_names,
    visionnmf.io.write_csv,
    visionnmf.io.write_image,
    visionnmf.io.write_sidecar,
    visionnmf.io.chunks.Chunks,
    visionnmf.io.chunks.open_chunks,
    visionnmf.datasets.CORRUPTIONS,
    visionnmf.datasets.CorruptedLowRank,
    visionnmf.datasets.Faces,
    visionnmf.datasets.Mosaic,
    visionnmf.datasets.PlantedViews,
    visionnmf.datasets.Surveillance,
    visionnmf.datasets.SurveillanceVideo,
    visionnmf.datasets.cache_folder,
    visionnmf.datasets.corrupt,
    visionnmf.datasets.fetch_orl,
    visionnmf.datasets.fetch_yale,
    visionnmf.datasets.fetch_yaleb,
    visionnmf.datasets.iter_surveillance,
    visionnmf.datasets.load_faces,
    visionnmf.datasets.load_surveillance,
    visionnmf.datasets.make_corrupted_low_rank,
    visionnmf.datasets.make_mosaic,
    visionnmf.datasets.make_surveillance,
    visionnmf.datasets.make_views,
    visionnmf.exceptions.MediaError,
    visionnmf.exceptions.OutdatedError,
    visionnmf.exceptions.OutputExistsError,
    visionnmf.exceptions.PASS_FORCE,
    visionnmf.exceptions.ParameterError,
    visionnmf.exceptions.TooLargeError,
    visionnmf.exceptions.UnreadableError,
    visionnmf.exceptions.UnsupportedError,
    visionnmf.exceptions.VisionNMFError,
    visionnmf.exceptions.installed_by,
    visionnmf.apps.ClusterError,
    visionnmf.apps.cluster_address,
    visionnmf.apps.is_shared,
    visionnmf.apps.on_cluster,
    visionnmf.apps.segmentation.Hierarchy,
    visionnmf.apps.segmentation.Outputs,
    visionnmf.apps.segmentation.SegmentationResult,
    visionnmf.apps.segmentation.WantedSegments,
    visionnmf.apps.segmentation.cut_out,
    visionnmf.apps.segmentation.overlay,
    visionnmf.apps.segmentation.paper_segments,
    visionnmf.apps.segmentation.process_image,
    visionnmf.apps.segmentation.segment,
    visionnmf.apps.segmentation.to_coco,
    visionnmf.apps.segmentation.to_csv,
    visionnmf.apps.segmentation.to_geojson,
    visionnmf.apps.segmentation.to_svg,
    visionnmf.apps.background.BackgroundModel,
    visionnmf.apps.background.EventSettings,
    visionnmf.apps.background.LiveCallbacks,
    visionnmf.apps.background.LiveSettings,
    visionnmf.apps.background.MaskStatistics,
    visionnmf.apps.background.ModelSettings,
    visionnmf.apps.background.OnlineBackgroundModel,
    visionnmf.apps.background.OutputSettings,
    visionnmf.apps.background.RegionSettings,
    visionnmf.apps.background.Separated,
    visionnmf.apps.background.VideoSettings,
    visionnmf.apps.background.follow_source,
    visionnmf.apps.background.make_separator,
    visionnmf.apps.background.process_video,
    visionnmf.apps.faces.Decomposition,
    visionnmf.apps.faces.FaceClustering,
    visionnmf.apps.faces.FaceIdentification,
    visionnmf.apps.faces.FaceModel,
    visionnmf.apps.faces.FaceReading,
    visionnmf.apps.faces.FaceRecognizer,
    visionnmf.apps.faces.FaceTraining,
    visionnmf.apps.faces.Identity,
    visionnmf.apps.faces.ShadowRemoval,
    visionnmf.apps.faces.add_person,
    visionnmf.apps.faces.cluster,
    visionnmf.apps.faces.cluster_faces,
    visionnmf.apps.faces.identify,
    visionnmf.apps.faces.load,
    visionnmf.apps.faces.remove_shadows,
    visionnmf.apps.faces.save,
    visionnmf.apps.faces.train,
    visionnmf.apps.faces.unshadow,
    visionnmf.apps.annotation.AnnotatedImage,
    visionnmf.apps.annotation.AnnotationModel,
    visionnmf.apps.annotation.AnnotatorSettings,
    visionnmf.apps.annotation.ImageAnnotator,
    visionnmf.apps.annotation.Neighbourhood,
    visionnmf.apps.annotation.Word,
    visionnmf.apps.annotation.WordOutputs,
    visionnmf.apps.annotation.annotate,
    visionnmf.apps.annotation.load,
    visionnmf.apps.annotation.save,
    visionnmf.apps.annotation.train,
    visionnmf.apps.multiview.Preparation,
    visionnmf.apps.multiview.ViewFit,
    visionnmf.apps.multiview.ViewModel,
    visionnmf.apps.multiview.fit_views,
    visionnmf.apps.multiview.impute_views,
    visionnmf.apps.multiview.load,
    visionnmf.apps.multiview.save,
    visionnmf.apps.multiview.transform_views,
    visionnmf.apps.masquerade.Event,
    visionnmf.apps.masquerade.Judging,
    visionnmf.apps.masquerade.LogSource,
    visionnmf.apps.masquerade.MasqueradeModel,
    visionnmf.apps.masquerade.Origin,
    visionnmf.apps.masquerade.Reason,
    visionnmf.apps.masquerade.ScorerSettings,
    visionnmf.apps.masquerade.Session,
    visionnmf.apps.masquerade.SessionCutting,
    visionnmf.apps.masquerade.SessionResult,
    visionnmf.apps.masquerade.SessionScorer,
    visionnmf.apps.masquerade.load,
    visionnmf.apps.masquerade.read_events,
    visionnmf.apps.masquerade.save,
    visionnmf.apps.masquerade.score,
    visionnmf.apps.masquerade.sessions,
    visionnmf.apps.masquerade.train,
    visionnmf.apps.features.ExtractorFiles,
    visionnmf.apps.features.extract_features,
    visionnmf.apps.evaluate.Comparison,
    visionnmf.apps.evaluate.DetectorConditions,
    visionnmf.apps.evaluate.FaceConditions,
    visionnmf.apps.evaluate.Labels,
    visionnmf.apps.evaluate.RandomSplits,
    visionnmf.apps.evaluate.Study,
    visionnmf.apps.evaluate.ViewConditions,
    visionnmf.apps.evaluate.evaluate,
    visionnmf.apps.reproduce.Experiment,
    visionnmf.apps.reproduce.Result,
    visionnmf.apps.reproduce.Row,
    visionnmf.apps.reproduce.Sizes,
    visionnmf.apps.reproduce.list_items,
    visionnmf.apps.reproduce.reproduce,
    visionnmf.models.Checkpoint,
    visionnmf.models.ConservativeNMF,
    visionnmf.models.GoDec,
    visionnmf.models.LossSelection,
    visionnmf.models.MultiviewNMF,
    visionnmf.models.NMF,
    visionnmf.models.OnlineNMF,
    visionnmf.models.Penalty,
    visionnmf.models.ProjectiveNMF,
    visionnmf.models.RPCA,
    visionnmf.models.RankSelection,
    visionnmf.models.SymmetricNMF,
    visionnmf.models.ViewClassifier,
    visionnmf.models.fit_stream,
    visionnmf.models.load_model,
    visionnmf.models.select_loss,
    visionnmf.models.select_rank,
    visionnmf.models.truncated_svd,
    visionnmf.engine.losses.Loss,
    visionnmf.engine.losses.LossRecord,
    visionnmf.engine.losses.Parameter,
    visionnmf.engine.losses.ProximalForm,
    visionnmf.engine.losses.SparseForm,
    visionnmf.engine.penalties.Bounds,
    visionnmf.engine.penalties.Box,
    visionnmf.engine.penalties.Graph,
    visionnmf.engine.penalties.Groups,
    visionnmf.engine.penalties.L1,
    visionnmf.engine.penalties.L2,
    visionnmf.engine.penalties.Linear,
    visionnmf.engine.penalties.Proximal,
    visionnmf.engine.penalties.Simplex,
    visionnmf.engine.penalties.Smooth,
    visionnmf.engine.penalties.Term,
]
