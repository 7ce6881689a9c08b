"""What others say of the chips that NVIDIA did not make: rows for the tables of test_chips.py.

The columns are those of its Family, Chip, BUSES and LINKS.
"""

# FLOP a clock of one unit: ROCm's documentation and AMD's report at ISSCC of CDNA, GPUOpen of RDNA,
# Intel's overviews of Xe (8 matrix engines of 256 or 512 FLOP a core), 2 x 256 x 256 of Gaudi's
# engine, 2 x 128 x 128 of a TPU's, 16 x 16 x 16 x 2 of Ascend's cube, 128 lanes of an Apple core,
# 16 x 16 x 2 x 2 of AMX, and two vectors a clock of 256 or 512 bits of the other processors.
FAMILIES = {
    "CDNA 1": (1024, None, {"fp32": 1 / 4, "fp16": 1, "bf16": 1 / 2, "int8": 1}),
    "CDNA 2": (1024, None, {"fp32": 1 / 4, "fp16": 1, "bf16": 1, "int8": 1}),
    "CDNA 4": (
        4096,
        None,
        {
            "fp32": 1 / 16,
            "fp16": 1,
            "bf16": 1,
            "fp8": 2,
            "mxfp8": 2,
            "int8": 2,
            "mxfp6": 4,
            "mxfp4": 4,
        },
    ),
    "CDNA 5": (
        None,
        None,
        {"fp32": None, "fp16": 1, "bf16": 1, "fp8": 2, "int8": 1, "mxfp6": 2, "mxfp4": 4},
    ),
    "RDNA 3": (512, 256, {"fp16": 1, "bf16": 1, "int8": 1, "int4": 2}),
    "RDNA 4": (1024, 256, {"fp16": 1, "bf16": 1, "fp8": 2, "int8": 2, "int4": 4}),
    "Xe-HPC": (4096, 256, {"tf32": 1 / 2, "fp16": 1, "bf16": 1, "int8": 2}),
    "Xe-HPG": (2048, 256, {"fp16": 1, "bf16": 1, "int8": 2}),
    "Xe2": (2048, 256, {"fp16": 1, "bf16": 1, "int8": 2, "int4": 4}),
    "Gaudi 2": (131_072, None, {"fp16": 1, "bf16": 1, "fp8": 2}),
    # Its other formats are rated at the clock that was planned.
    "Gaudi 3": (131_072, None, {"fp32": None, "tf32": None, "fp16": None, "bf16": 1, "fp8": 1}),
    "TPU v3": (32_768, None, {"bf16": 1}),
    "TPU v4": (32_768, None, {"bf16": 1, "int8": 1}),
    "TPU v5e": (32_768, None, {"bf16": 1, "int8": 2}),
    "TPU v5p": (32_768, None, {"bf16": 1, "fp8": 1, "int8": 2}),
    "TPU v6e": (None, None, {"bf16": 1, "fp8": 1, "int8": 2}),
    "TPU v7": (None, None, {"bf16": 1, "fp8": 2}),
    "NeuronCore-v2": (
        None,
        None,
        {"fp32": 1 / 4, "tf32": 1, "fp16": 1, "bf16": 1, "fp8": 1, "int8": 2},
    ),
    # As AWS prints them: 1299 and 181 beside 667, 2517 and 183 beside 671.
    "NeuronCore-v3": (
        None,
        None,
        {"fp32": 181 / 667, "tf32": 1, "fp16": 1, "bf16": 1, "fp8": 1299 / 667},
    ),
    "NeuronCore-v4": (
        None,
        None,
        {"fp32": 183 / 671, "tf32": 1, "fp16": 1, "bf16": 1}
        | dict.fromkeys(("fp8", "mxfp8", "mxfp4"), 2517 / 671),
    ),
    "Apple": (256, None, {"fp32": 1, "fp16": 1, "bf16": 1}),
    "Apple, matrix units": (None, None, {"fp32": None, "fp16": 1, "bf16": 1}),
    "Da Vinci": (8192, None, {"fp16": 1, "bf16": 1, "int8": 2}),
    # A cabinet of 64: 31.1, 58.8 and 114.1 PFLOP/s.
    "Ascend 950": (
        None,
        None,
        {"fp16": 1, "bf16": 1, "fp8": 58.8 / 31.1, "mxfp8": 58.8 / 31.1, "mxfp4": 114.1 / 31.1},
    ),
    "TSP": (None, None, {"fp16": 1, "int8": 4}),
    # Two passes over a multiplier of 8 bits for fp16; its fp8 is printed as 262 beside 74.
    "Wormhole": (1024, None, {"fp16": 1, "fp8": 262 / 74}),
    "Blackhole": (2048, None, {"fp16": 1, "fp8": 2}),
    "SN40L": (None, None, {"bf16": 1}),
    "WSE-3": (None, None, {"fp16": 1}),
    "Sapphire Rapids": (1024, None, {"fp32": 1 / 16, "bf16": 1, "int8": 2}),
    "Granite Rapids": (1024, None, {"fp32": 1 / 16, "fp16": 1, "bf16": 1, "int8": 2}),
    "Zen 4": (64, None, {"fp32": 1 / 2, "bf16": 1, "int8": 2}),
    "Zen 5": (128, None, {"fp32": 1 / 2, "bf16": 1, "int8": 2}),
    "Neoverse V2": (128, None, {"fp32": 1 / 4, "bf16": 1, "int8": 2}),
}

CHIPS = {
    "mi100": ("CDNA 1", 120, 1.502e9, 1.502e9),
    "mi210": ("CDNA 2", 104, 1.700e9, 1.700e9),
    "mi250": ("CDNA 2", 208, 1.700e9, 1.700e9),
    "mi250x": ("CDNA 2", 220, 1.700e9, 1.700e9),
    "mi300a": ("CDNA 3", 228, 2.100e9, 2.100e9),
    "mi325x": ("CDNA 3", 304, 2.100e9, 2.100e9),
    "mi350x": ("CDNA 4", 256, 2.200e9, 2.200e9),
    "mi355x": ("CDNA 4", 256, 2.400e9, 2.400e9),
    "mi455x": ("CDNA 5", None, None, 2.400e9),
    "rx-7900-xtx": ("RDNA 3", 96, 2.500e9, 2.500e9),
    "rx-9070-xt": ("RDNA 4", 64, 2.970e9, 2.970e9),
    "ryzen-ai-max-395": ("RDNA 3", 40, 2.900e9, 2.900e9),
    "gaudi2": ("Gaudi 2", 2, 1.650e9, 1.650e9),
    "gaudi3": ("Gaudi 3", 8, 1.600e9, 1.600e9),
    "max-1550": ("Xe-HPC", 128, 1.600e9, 1.600e9),
    "arc-a770": ("Xe-HPG", 32, 2.100e9, 2.100e9),
    "arc-b580": ("Xe2", 20, 2.670e9, 2.670e9),
    "arc-pro-b60": ("Xe2", 20, 2.400e9, 2.400e9),
    "tpu-v3": ("TPU v3", 4, 0.940e9, 0.940e9),
    "tpu-v4": ("TPU v4", 8, 1.050e9, 1.050e9),
    "tpu-v5e": ("TPU v5e", 4, 1.500e9, 1.500e9),
    "tpu-v5p": ("TPU v5p", 8, 1.750e9, 1.750e9),
    "tpu-v6e": ("TPU v6e", None, None, None),
    "tpu-v7": ("TPU v7", None, None, None),
    "inferentia2": ("NeuronCore-v2", 2, None, None),
    "trainium1": ("NeuronCore-v2", 2, None, None),
    "trainium2": ("NeuronCore-v3", 8, None, None),
    "trainium3": ("NeuronCore-v4", 8, None, None),
    "apple-m1": ("Apple", 8, None, None),
    "apple-m1-7-core": ("Apple", 7, None, None),
    "apple-m1-pro": ("Apple", 16, None, None),
    "apple-m1-pro-14-core": ("Apple", 14, None, None),
    "apple-m1-max": ("Apple", 32, None, None),
    "apple-m1-max-24-core": ("Apple", 24, None, None),
    "apple-m1-ultra": ("Apple", 64, None, None),
    "apple-m2": ("Apple", 10, None, None),
    "apple-m2-pro": ("Apple", 19, None, None),
    "apple-m2-max": ("Apple", 38, None, None),
    "apple-m2-ultra": ("Apple", 76, None, None),
    "apple-m2-ultra-60-core": ("Apple", 60, None, None),
    "apple-m3": ("Apple", 10, None, None),
    "apple-m3-pro": ("Apple", 18, None, None),
    "apple-m3-max": ("Apple", 40, None, None),
    "apple-m3-max-30-core": ("Apple", 30, None, None),
    "apple-m3-ultra": ("Apple", 80, None, None),
    "apple-m4": ("Apple", 10, None, None),
    "apple-m4-pro": ("Apple", 20, None, None),
    "apple-m4-max": ("Apple", 40, None, None),
    "apple-m4-max-32-core": ("Apple", 32, None, None),
    "apple-m5": ("Apple, matrix units", 10, None, None),
    "apple-m5-max": ("Apple, matrix units", 40, None, None),
    "ascend-910b2": ("Da Vinci", 24, None, None),
    "ascend-910b3": ("Da Vinci", 20, None, None),
    "ascend-910b4": ("Da Vinci", 20, None, None),
    "ascend-910c": ("Da Vinci", 48, None, None),
    "ascend-950dt": ("Ascend 950", None, None, None),
    "groq-lpu-v1": ("TSP", None, None, None),
    "cerebras-wse3": ("WSE-3", 900_000, None, None),
    "wormhole-n150": ("Wormhole", 72, 1.000e9, 1.000e9),
    "blackhole-p100": ("Blackhole", 120, 1.350e9, 1.350e9),
    "blackhole-p150": ("Blackhole", 140, 1.350e9, 1.350e9),
    "sn40l": ("SN40L", 1040, None, None),
    "xeon-8480plus": ("Sapphire Rapids", 56, 2.000e9, None),
    "xeon-6980p": ("Granite Rapids", 128, 2.000e9, None),
    "epyc-9654": ("Zen 4", 96, 3.550e9, 3.550e9),
    "epyc-9755": ("Zen 5", 128, 2.700e9, None),
    "graviton4": ("Neoverse V2", 96, 2.800e9, 2.800e9),
}

UNSTATED = {"arc-pro-b60": {"int4"}}

SPARSE = {
    "mi300a": {"tf32": 980.6, "fp16": 1961.2, "bf16": 1961.2, "fp8": 3922.3, "int8": 3922.3},
    "mi325x": {"tf32": 1307.4, "fp16": 2614.9, "bf16": 2614.9, "fp8": 5229.8, "int8": 5229.8},
    "mi350x": {"fp16": 4600, "bf16": 4600, "fp8": 9200, "int8": 9200},
    "mi355x": {"fp16": 5000, "bf16": 5000, "fp8": 10_100, "int8": 10_100},
    "mi455x": {"fp8": 20_100, "mxfp4": 40_300},  # unlabelled, and twice what bf16 allows
    "rx-9070-xt": {"int4": 1557},
}

BUSES = {
    "mi100": (4096, 2.4e9),
    "mi210": (4096, 3.2e9),
    "mi250": (8192, 3.2e9),
    "mi250x": (8192, 3.2e9),
    "mi300a": (8192, 5.2e9),
    "mi325x": (8192, 6.0e9),
    "mi350x": (8192, 8.0e9),
    "mi355x": (8192, 8.0e9),
    "rx-7900-xtx": (384, 20e9),
    "rx-9070-xt": (256, 20e9),
    "ryzen-ai-max-395": (256, 8.0e9),
    "gaudi2": (6144, 3.2e9),
    "gaudi3": (8192, 3.6e9),
    "max-1550": (8192, 3.2e9),
    "arc-a770": (256, 17.5e9),
    "arc-b580": (192, 19e9),
    "arc-pro-b60": (192, 19e9),
    "apple-m1": (128, 4.266e9),
    "apple-m1-7-core": (128, 4.266e9),
    "apple-m1-pro": (256, 6.4e9),
    "apple-m1-pro-14-core": (256, 6.4e9),
    "apple-m1-max": (512, 6.4e9),
    "apple-m1-max-24-core": (512, 6.4e9),
    "apple-m1-ultra": (1024, 6.4e9),
    "apple-m2": (128, 6.4e9),
    "apple-m2-pro": (256, 6.4e9),
    "apple-m2-max": (512, 6.4e9),
    "apple-m2-ultra": (1024, 6.4e9),
    "apple-m2-ultra-60-core": (1024, 6.4e9),
    "apple-m3": (128, 6.4e9),
    "apple-m3-pro": (192, 6.4e9),
    "apple-m3-max": (512, 6.4e9),
    "apple-m3-max-30-core": (384, 6.4e9),
    "apple-m3-ultra": (1024, 6.4e9),
    "apple-m4": (128, 7.5e9),
    "apple-m4-pro": (256, 8.533e9),
    "apple-m4-max": (512, 8.533e9),
    "apple-m4-max-32-core": (384, 8.533e9),
    "apple-m5": (128, 9.6e9),
    "apple-m5-max": (512, 9.6e9),
    "wormhole-n150": (192, 12e9),
    "blackhole-p100": (224, 16e9),
    "blackhole-p150": (256, 16e9),
    # Channels of 64 bits.
    "xeon-8480plus": (8 * 64, 4.8e9),
    "xeon-6980p": (12 * 64, 8.8e9),
    "epyc-9654": (12 * 64, 4.8e9),
    "epyc-9755": (12 * 64, 6.0e9),
    "graviton4": (12 * 64, 5.6e9),
}
NO_BUS = {
    "mi455x", "tpu-v3", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7", "inferentia2",
    "trainium1", "trainium2", "trainium3", "ascend-910b2", "ascend-910b3", "ascend-910b4",
    "ascend-910c", "ascend-950dt", "groq-lpu-v1", "cerebras-wse3", "sn40l",
}  # fmt: skip
ROUNDED = {
    **dict.fromkeys(("mi325x", "mi350x", "mi355x"), 0.9766),  # 6 of 6.144, 8 of 8.192 TB/s
    # 400 of 409.6 GB/s and its multiples; newer ones are printed in full.
    **{f"apple-m{n}-{size}": 0.9766 for n in (1, 2) for size in ("pro", "max", "ultra")},
    **dict.fromkeys(("apple-m2", "apple-m3", "apple-m3-pro", "apple-m3-max"), 0.9766),
    **dict.fromkeys(("apple-m1-pro-14-core", "apple-m1-max-24-core"), 0.9766),
    **dict.fromkeys(("apple-m2-ultra-60-core", "apple-m3-max-30-core"), 0.9766),
}

# Links of TPUs as Google's pages say: the scaling book has a tenth less of v5e, v5p and v6e. Where
# the number of links is not stated, half of what the headline counts in both directions.
LINKS = {
    "mi100": (3, 46e9, 4),
    "mi210": (3, 50e9, 4),
    "mi250": (6, 50e9, 4),
    "mi250x": (7, 50e9, 8),
    "mi300a": (6, 64e9, 4),
    "mi300x": (7, 64e9, 8),
    "mi325x": (7, 64e9, 8),
    "mi350x": (7, 76.8e9, 8),
    "mi355x": (7, 76.8e9, 8),
    "mi455x": (1, 3.6e12 / 2, 72),
    "gaudi2": (21, 100e9 / 8, 8),
    "gaudi3": (21, 200e9 / 8, 8),
    "tpu-v3": (4, 100e9, 1024),
    "tpu-v4": (6, 45e9, 4096),
    "tpu-v5e": (4, 50e9, 256),
    "tpu-v5p": (6, 100e9, 8960),
    "tpu-v6e": (4, 100e9, 256),
    "tpu-v7": (6, 100e9, 9216),
    "inferentia2": (1, 192e9 / 2, 12),
    "trainium1": (1, 384e9 / 2, 16),
    "trainium2": (1, 1.28e12 / 2, 16),
    "trainium3": (1, 2.56e12 / 2, 144),
    "ascend-910b2": (7, 28e9, 8),
    "ascend-910b3": (7, 28e9, 8),
    "ascend-910b4": (7, 28e9, 8),
    "ascend-910c": (14, 28e9, 384),
    "ascend-950dt": (1, 840e9, 8192),
}

SHARED = "CPU and GPU are in one package"
HOST = "it is the host"
NO_HOST_LINK = {
    **dict.fromkeys(("mi300a", "ryzen-ai-max-395"), SHARED),
    **{key: SHARED for key in CHIPS if key.startswith("apple")},
    **dict.fromkeys(("xeon-8480plus", "xeon-6980p", "epyc-9654", "epyc-9755", "graviton4"), HOST),
    **{key: "nobody states it" for key in CHIPS if key.startswith("tpu")},
    **dict.fromkeys(("trainium3", "ascend-950dt", "cerebras-wse3", "sn40l"), "nobody states it"),
}

# Caches that do not nest: private ones of all cores together against a shared one.
PRIVATE_CACHES = {"xeon-8480plus", "graviton4"}

# Chips that the reference table has no row for.
UNLISTED = {
    "mi250", "apple-m1-7-core", "apple-m1-pro-14-core", "apple-m1-max-24-core",
    "apple-m2-ultra-60-core", "apple-m3-max-30-core", "apple-m4-max-32-core", "wormhole-n150",
    "blackhole-p100", "blackhole-p150", "sn40l",
}  # fmt: skip

# What another list than the catalog's says of them, as in test_chips.py: HMC and Notebookcheck of
# Apple's, ROCm of the MI250X beside the MI250, half an n300, a news item on the Blackhole cards,
# Hot Chips of sixteen SN40L.
SECOND = {
    "mi250": (3.2768e12, None, None),
    "apple-m1-7-core": (68.25e9, None, None),
    "apple-m1-pro-14-core": (200e9, None, 4.6e12),
    "apple-m1-max-24-core": (400e9, None, 7.96e12),
    "apple-m2-ultra-60-core": (800e9, None, 21.47e12),
    "apple-m3-max-30-core": (300e9, None, 10.74e12),
    "apple-m4-max-32-core": (410e9, None, None),
    "wormhole-n150": (576e9 / 2, None, None),
    "blackhole-p100": (448e9, None, None),
    "blackhole-p150": (512e9, None, None),
    "sn40l": (25.6e12 / 16, None, None),
}

REFERENCE_IDS = {key: key for key in CHIPS if key not in UNLISTED} | {
    "mi100": "mi100-32gb",
    "mi210": "mi210-64gb",
    "mi250x": "mi250x-128gb",
    "mi300a": "mi300a-128gb",
    "mi325x": "mi325x-256gb",
    "mi350x": "mi350x-288gb",
    "mi355x": "mi355x-288gb",
    "ryzen-ai-max-395": "strix-halo-8060s",
    "gaudi2": "gaudi2-96gb",
    "gaudi3": "gaudi3-oam-128gb",
    "arc-a770": "arc-a770-16gb",
    "arc-b580": "arc-b580-12gb",
    "arc-pro-b60": "arc-pro-b60-24gb",
    "tpu-v7": "tpu-v7-ironwood",
    "ascend-910b2": "ascend-910b2-64gb",
    "ascend-910b3": "ascend-910b3-64gb",
    "ascend-910b4": "ascend-910b4-32gb",
}

UNPRINTED = "no clock: the table divides the peak by the units"
BASE = "the table's is the base clock"
DIFFERS = {
    **{(key, "matrix_clock"): UNPRINTED for key in REFERENCE_IDS if key.startswith("apple")},
    **{(key, "link.domain"): "no bandwidth" for key in ("max-1550", "groq-lpu-v1")},
    **{(key, "boost_clock"): BASE for key in ("xeon-8480plus", "xeon-6980p", "epyc-9755")},
    **{
        (key, "host_link.bandwidth"): why
        for key, why in NO_HOST_LINK.items()
        if why == HOST or key in ("mi300a", "ryzen-ai-max-395")
    },
}
