"""Choices and defaults shared by estimators and command line; imports nothing heavy."""

AUTO = "auto"
COMPARED_LOSSES = ("manhattan", "huber", "frobenius", "kullback-leibler")  # by select_loss
STARTS = ("random", "nndsvd", "nndsvda", "nndsvdar")
STOPS = ("auto", "decrease", "projected-gradient", "clusters")
ONLINE_STARTS = ("batch", *STARTS)

# visionnmf segment
MAX_SEGMENTS = 1000
MAX_PAPER_SEGMENTS = 100
SEGMENT_METHODS = ("tree", "nmf", "paper")
SEGMENT_LOSSES = ("manhattan", "frobenius")
PAPER_METHODS = ("manhattan", "ncut", "spectral")

# visionnmf background
BACKGROUND_COMPONENTS = 2
EVENT_LENGTH = 0.5  # seconds that something must move
EVENT_PADDING = 1.0  # seconds
EVENT_AREA = 0.0005  # of the picture
EVENT_UNITS = ("scene", "objects")
LIVE_FORGETTING = 60.0  # seconds
LIVE_WARM_UP = 2.0  # seconds that are learnt before the first mask
LIVE_STATE_SECONDS = 10.0  # between two states that are written
LIVE_TIMEOUT = 10.0  # seconds that an address may say nothing
LIVE_PATIENCE = 60.0  # seconds in which a lost source is looked for
MASK_FORMATS = ("ffv1", "h264", "png")
BACKGROUND_METHODS = ("ours", "mahnmf")

# visionnmf masquerade
NAMELESS = "user"  # the user of a log on standard input that names none
SESSION_SIZE = 100
FALSE_ALARM_RATE = 0.02
SCORER_METHODS = ("counts", "nmf", "mex-perera", "wang")
SCORER_LOSSES = ("kullback-leibler", "manhattan")
LOG_FORMATS = ("plain", "bash", "zsh", "csv", "jsonl")

RANDOM_STATE = 0

# What is read of a folder, by how names end; capitals are meant too.
IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp", ".gif", ".pgm", ".ppm", ".pnm"),
    *(".heic", ".heif", ".avif"),
)
VIDEO_SUFFIXES = (
    ".mp4", ".mkv", ".avi", ".mov", ".webm", ".mpg", ".mpeg", ".m4v", ".ogv", ".wmv", ".flv",
    ".mts", ".m2ts", ".ts", ".3gp", ".asf", ".vob",
)  # fmt: skip

# visionnmf features
FEATURE_KINDS = ("gist", "dense-hue", "dense-sift", "lab")

# visionnmf multiview
VIEW_COMPONENTS = 20
VIEW_SPARSITY = 0.1
VIEW_PREPARATIONS = ("auto", "range", "rows", "none")
VIEW_SCALES = ("energy", "none")

# visionnmf faces
FACE_SETS = ("orl", "yale", "yaleb")  # that are fetched
FACE_SHADOW_COMPONENTS = 3  # dimensions of images of a matt, convex object without shadows (Shashua 1997)
FACE_RULES = ("auto", "residual")
FACE_RULE_DEFAULT = "auto"
FACE_MISSING = ("none", "saturated", "blocks")
FACE_MISSING_DEFAULT = "blocks"  # where there are no names to choose by
FACE_MISSING_AUTO = "auto"  # where there are
FACE_UNKNOWN_RATE = 0.05  # share of strangers who may pass
FACE_COMPONENTS = 100
FACE_SIZE = 64  # pixels a side, of faces that were cut out

# visionnmf annotate
ANNOTATION_METHODS = ("weighted", "jec", "jec-greedy")
ANNOTATION_METHOD = "weighted"
ANNOTATION_CODERS = ("frobenius", "kullback-leibler", "manhattan", "l21", "huber", "or-nmf", "none")
ANNOTATION_CODER = "frobenius"
ANNOTATION_METRICS = ("manhattan", "euclidean", "chi-squared", "kullback-leibler")
ANNOTATION_COMPONENTS = (50, 100, 200)  # of each kind of features; a distance each
ANNOTATION_WORDS = 5
ANNOTATION_BALANCE = 0.4  # how much rare words come first
