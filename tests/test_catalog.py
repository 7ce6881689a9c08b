"""The shipped models against the outside world, and how the catalog is read.

The chips are in test_chips.py.
"""

import csv
from datetime import date
from functools import reduce
from math import isclose
from operator import getitem
from pathlib import Path

import pytest

import perfmodel as pm
from perfmodel.base._data import catalogs, read_toml
from perfmodel.base.errors import PerfModelError, UnknownKeyError

GPUS = ("a100-sxm-80gb", "b200-sxm", "h100-sxm", "h200-sxm", "l4", "mi300x", "rtx-4090")
MODELS = ("gpt2", "llama-3.1-70b", "llama-3.1-8b", "mistral-7b-v0.3", "qwen3-0.6b", "qwen3-8b")

# A value that somebody measured or typed in has no place in a shipped chip.
KINDS = {"datasheet", "quoted", "secondary", "derived", "device-reported", "assumed"}


def test_the_catalog_is_complete():
    assert set(GPUS) <= set(pm.gpus())
    assert set(MODELS) <= set(pm.models())


def test_every_model_has_its_witness():
    missing, unknown = set(pm.models()) - set(WITNESSES), set(WITNESSES) - set(pm.models())
    assert not missing, f"WITNESSES needs a row for: {', '.join(sorted(missing))}"
    assert not unknown, f"WITNESSES has rows of no model: {', '.join(sorted(unknown))}"


# -- origins ----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", pm.models())
def test_every_size_of_a_model_has_a_sourced_and_dated_origin(key):
    origins = pm.model(key).origins
    fields = [origin.field for origin in origins]
    assert len(fields) == len(set(fields)) > 0
    for origin in origins:
        assert origin.kind in KINDS
        assert origin.source is not None
        assert date.fromisoformat(origin.date)


NO_ADDRESS = ("price-openrelay", "price-packet")


def test_sources_resolve_and_are_all_used():
    known = read_toml(catalogs() / "sources.toml")
    for key, source in known.items():
        assert source["title"]
        assert source["publisher"]
        # Two price lists were only seen as others quote them.
        assert source.get("url", "").startswith("https://") or key in NO_ADDRESS
        assert date.fromisoformat(source["date"])
    parts = [pm.gpu(key) for key in pm.gpus()] + [pm.model(key) for key in pm.models()]
    used = {origin.source for part in parts for origin in part.origins} - {None}
    used |= {source for price in pm.prices().values() for source in price.sources}
    fitted = [read_toml(path) for path in (catalogs() / "efficiency").glob("*.toml")]
    with (Path(__file__).parent / "fixtures" / "single_stream.csv").open(encoding="utf-8") as file:
        streamed = {row["source"] for row in csv.DictReader(file)}
    keys = {source.key for source in used} | {file["origin"]["source"] for file in fitted}
    engines = read_toml(catalogs() / "engines.toml")
    keys |= streamed | {engines["launches"]["origin"]["source"]}
    assert keys == set(known)
    for source in used:
        assert source.url == known[source.key].get("url", "")


# -- models -----------------------------------------------------------------------------------

# Parameters that each model's page states (the sizes of its tensors, as llmfit 1.1.17 lists them),
# and by how many they exceed decoder, towers and extra prediction layers of the catalog: an exact
# sum of what the page counts beside them, or a share where the page is rounded or unexplained. Of
# InternLM2, OLMo-2 and Llama-2-70B it is a chat model's or a copy's page, of the same shape.
TIED, MASKS, SCALES = "a tied head, stored twice", "causal masks", "quantization scales"
BIASES, MTP = "router biases", "embedding and head of the prediction layer, stored again"
FREQUENCIES = "frequencies of the rotary embedding"
WITNESSES = {
    # Llama
    "llama-2-7b": (6_738_417_664, 32 * 64, FREQUENCIES),
    "llama-2-13b": (13_015_866_880, 40 * 64, FREQUENCIES),
    "llama-2-70b": (68_976_653_312, 80 * 64, FREQUENCIES),
    "llama-3-8b": (8_030_261_248, 0, ""),
    "llama-3-70b": (70_553_706_496, 0, ""),
    "llama-3.1-8b": (8_030_261_248, 0, ""),
    "llama-3.1-70b": (70_553_706_496, 0, ""),
    "llama-3.1-405b": (405_853_388_800, 0, ""),
    "llama-3.2-1b": (1_235_814_400, 0, ""),
    "llama-3.2-3b": (3_212_749_824, 0, ""),
    "llama-3.2-11b-vision": (10_670_220_835, 0, ""),
    "llama-3.3-70b": (70_553_706_496, 0, ""),
    "llama-4-scout": (108_641_793_536, 0, ""),
    "llama-4-maverick": (401_583_781_376, 0, ""),
    "codellama-13b": (13_016_028_160, 0, ""),
    "yi-34b": (34_388_917_248, 0, ""),
    # Mistral
    "mistral-7b-v0.3": (7_248_023_552, 0, ""),
    "mistral-nemo-12b": (12_247_782_400, 0, ""),
    "mistral-small-24b": (23_572_403_200, 0, ""),
    "mistral-large-2407": (122_610_069_504, 0, ""),
    "ministral-8b": (8_019_808_256, 0, ""),
    "devstral-small-2": (24_011_361_840, 40 * 7 * 2, SCALES),
    "mixtral-8x7b": (46_702_792_704, 0, ""),
    "mixtral-8x22b": (140_630_071_296, 2 * 768 * 6144, "the instruct model's further tokens"),
    # Transformers 5.24 counts the whole class; pages list only text models made of it.
    "voxtral-mini-3b": (4_676_271_104, 0, ""),
    # Qwen
    "qwen2.5-0.5b": (494_032_768, 0, ""),
    "qwen2.5-1.5b": (1_543_714_304, 0, ""),
    "qwen2.5-3b": (3_085_938_688, 0, ""),
    "qwen2.5-7b": (7_615_616_512, 0, ""),
    "qwen2.5-14b": (14_770_033_664, 0, ""),
    "qwen2.5-32b": (32_763_876_352, 0, ""),
    "qwen2.5-72b": (72_706_203_648, 0, ""),
    "qwen2.5-vl-7b": (8_292_166_656, 0, ""),
    "qwen3-0.6b": (751_632_384, 151_936 * 1024, TIED),
    "qwen3-1.7b": (2_031_739_904, 151_936 * 2048, TIED),
    "qwen3-4b": (4_022_468_096, 0, ""),
    "qwen3-8b": (8_190_735_360, 0, ""),
    "qwen3-14b": (14_768_307_200, 0, ""),
    "qwen3-32b": (32_762_123_264, 0, ""),
    "qwen3-30b-a3b": (30_532_122_624, 0, ""),
    "qwen3-235b-a22b": (235_093_634_560, 0, ""),
    "qwen3-coder-30b-a3b": (30_532_122_624, 0, ""),
    "qwen3-coder-480b-a35b": (480_154_875_392, 0, ""),
    # The config says nothing of the checkpoint's prediction layer: attention of 16 heads, gated,
    # and 2 KV heads of 256; 512 experts and a shared one of 512; a projection; norms.
    "qwen3-next-80b-a3b": (
        81_324_862_720,
        (3 * 16 + 2 * 2) * 256 * 2048 + 513 * 3 * 512 * 2048 + 513 * 2048 + 2 * 2048 * 2048
        + 5 * 2048 + 2 * 256,
        "a prediction layer",
    ),
    "qwen3.5-27b": (27_781_427_952, 0, ""),
    "qwen3.5-35b-a3b": (35_951_822_704, 0, ""),
    "qwen3.5-397b-a17b": (403_397_928_944, 0, ""),
    "qwen3.6-27b": (27_781_427_952, 0, ""),
    "qwen3-vl-8b": (8_767_123_696, 0, ""),
    "qwen3-vl-32b": (33_357_390_064, 0, ""),
    # DeepSeek, Moonshot
    "deepseek-v2": (235_741_434_880, 0, ""),
    "deepseek-v2-lite": (15_706_484_224, 0, ""),
    # Scales of blocks of 128 x 128: of attention, of three dense layers, of 257 experts a layer.
    "deepseek-v3": (
        684_531_386_000,
        2 * 129_280 * 7168 + 59 * 256
        + 62 * (12 * 56 + 192 * 12 + 5 * 56 + 256 * 4 + 56 * 128)
        + 3 * 3 * 144 * 56 + 59 * 257 * 3 * 16 * 56,
        f"{MTP}; {BIASES}; {SCALES}",
    ),
    "deepseek-r1": (684_489_845_504, 2 * 129_280 * 7168 + 59 * 256, f"{MTP}; {BIASES}"),
    "deepseek-v3.2": (685_355_329_792, 2 * 129_280 * 7168 + 59 * 256, f"{MTP}; {BIASES}"),
    "deepseek-v4-flash": (
        290_944_616_402, 3 * 129_280 * 6 + 41 * 256, f"three layers' experts by token; {BIASES}"
    ),
    "kimi-k2": (1_026_408_235_864, 1e-7, "more than 60 x 384 router biases: unexplained"),
    "kimi-k2.5": (1_026_879_376_368, 60 * 384, BIASES),
    "kimi-k2.6": (1_026_879_376_368, 60 * 384, BIASES),
    "moonlight-16b-a3b": (15_960_111_936, 26 * 64 + 27 * 64, f"{BIASES}; {FREQUENCIES}"),
    # Zhipu, MiniMax
    "glm-4-9b": (9_399_951_360, 0, ""),
    "glm-4-32b": (32_566_081_536, 0, ""),
    "glm-4.5": (358_337_791_296, 2 * 151_552 * 5120 + 90 * 160, f"{MTP}; {BIASES}"),
    "glm-4.5-air": (110_468_824_832, 2 * 151_552 * 4096 + 46 * 128, f"{MTP}; {BIASES}"),
    "glm-5.2": (753_329_940_480, 76 * 256, BIASES),
    "minimax-m2.5": (
        228_703_644_928,
        62 * (256 + 2 * 48 * 24 + 2 * 8 * 24 + 256 * 3 * 12 * 24),
        f"{BIASES}; {SCALES}",
    ),
    "minimax-m3": (427_040_140_160, 0.003, "unexplained"),
    "minimax-text-01": (456_089_655_296, 0, ""),
    # OpenAI
    "gpt2": (137_022_720, 12 * 1024 * 1024, MASKS),
    "gpt2-xl": (1_607_942_848, 48 * 1024 * 1024, MASKS),
    "gpt-oss-20b": (20_914_757_184, 0, ""),
    "gpt-oss-120b": (116_829_156_672, 0, ""),
    # Google
    "gemma-7b": (8_537_680_896, 0, ""),
    "gemma-2-2b": (2_614_341_888, 0, ""),
    "gemma-2-9b": (9_241_705_984, 0, ""),
    "gemma-2-27b": (27_227_128_320, 0, ""),
    "gemma-3-270m": (268_098_176, 0, ""),
    "gemma-3-4b": (4_300_079_472, 0, ""),
    "gemma-3-12b": (12_187_325_040, 0, ""),
    "gemma-3-27b": (27_432_406_640, 0, ""),
    # Layers that share another's keys and values have projections of their own in the checkpoint.
    "gemma-3n-e4b": (7_849_978_192, 15 * (2 * 2 * 256 * 2048 + 256), "unused projections"),
    "gemma-4-e4b": (
        7_996_156_490,
        15 * (2 * 2 * 256 * 2560 + 256) + 3 * (2 * 2 * 512 * 2560 + 512) + 42,
        "unused projections; a scalar a layer",
    ),
    "gemma-4-26b-a4b": (26_544_131_376, 262_144 * 2816, TIED),
    "gemma-4-31b": (31_273_088_876, 60 + 2 * 1152, "a scalar a layer; moments of the images"),
    # Microsoft
    "phi-2": (2_779_683_840, 0, ""),
    "phi-3-mini-4k": (3_821_079_552, 0, ""),
    "phi-3.5-mini": (3_821_079_552, 0, ""),
    "phi-4": (14_659_507_200, 0, ""),
    "phi-4-mini": (3_836_021_760, 0, ""),
    "phi-mini-moe": (7_647_632_704, 0, ""),
    # TII
    "falcon-7b": (7_217_189_760, 65_024 * 4544, TIED),
    "falcon-40b": (41_835_970_560, 65_024 * 8192, TIED),
    "falcon-180b": (179_522_565_120, 65_024 * 14_848, TIED),
    "falcon-h1-0.5b": (521_411_104, 0, ""),
    "falcon-mamba-7b": (7_272_665_088, 0, ""),
    # EleutherAI, Meta's OPT, BigScience, BigCode
    # GPT-J's card; Transformers 5.24 counts 6,050,882,784.
    "gpt-j-6b": (6_053_381_344, 0.0005, "unexplained"),
    "gpt-neox-20b": (20_739_117_584, 44 * (2048 * 2048 + 12), f"{MASKS}; {FREQUENCIES}"),
    "pythia-6.9b": (6_991_520_256, 32 * (2048 * 2048 + 16), f"{MASKS}; {FREQUENCIES}"),
    # OPT has no tensors with sizes on its pages: what Transformers 5.24 counts.
    "opt-125m": (125_239_296, 0, ""),
    "opt-6.7b": (6_658_473_984, 0, ""),
    "opt-175b": (174_604_468_224, 0, ""),
    "bloom": (176_247_271_424, 0, ""),
    "bloom-3b": (3_002_557_440, 0, ""),
    "santacoder": (1_124_886_528, 0, ""),
    "starcoder2-3b": (3_030_371_328, 0, ""),
    # AI2, IBM, AI21, NVIDIA, Liquid AI
    "olmo-2-13b": (13_716_198_400, 0, ""),
    "olmo-3-7b": (7_298_011_136, 0, ""),
    "granite-3.3-2b": (2_533_539_840, 0, ""),
    "granite-4.0-h-small": (32_207_337_984, 0, ""),
    "granite-4.0-h-tiny": (6_939_037_248, 0, ""),
    "jamba-1.5-mini": (51_570_323_328, 0, ""),
    "jamba-1.5-large": (398_555_145_696, 0, ""),
    "mamba-1.4b": (1_372_178_432, 0, ""),
    "llama-3.3-nemotron-super-49b": (49_867_145_216, 0, ""),
    "nemotron-3-nano-30b-a3b": (31_577_937_344, 0, ""),
    "nemotron-3-ultra-550b-a55b": (560_524_578_816, 0, ""),
    "lfm2-1.2b": (1_170_340_608, 0, ""),
    "lfm2-8b-a1b": (8_339_929_856, 0, ""),
    # Cohere, LG, Swiss AI, Hugging Face, Stability AI, Shanghai AI Lab, Tencent, Databricks
    "command-r": (34_980_831_232, 0, ""),
    "command-r7b": (8_028_033_024, 0, ""),
    "command-a": (111_057_580_032, 0, ""),
    "exaone-4.0-32b": (32_003_216_384, 0, ""),
    "apertus-8b": (8_053_338_176, 0, ""),
    "smollm3-3b": (3_075_098_624, 0, ""),
    "stablelm-3b": (2_795_443_200, 0, ""),
    "internlm2-7b": (7_737_708_544, 0, ""),
    "internlm3-8b": (8_804_241_408, 0, ""),
    "hunyuan-7b": (7_504_568_320, 0, ""),
    "hy3": (295_033_528_320, 0, ""),  # as Transformers 5.24 counts; the page has 295e9
    "dbrx": (132e9, 0.004, "rounded"),
}  # fmt: skip


@pytest.mark.parametrize("key", WITNESSES)
def test_models_have_the_published_parameters(key):
    published, beside, why = WITNESSES[key]
    model = pm.model(key)
    total = model.params + model.tower_params + model.mtp_params
    assert bool(why) == bool(beside)
    if isinstance(beside, float):
        assert isclose(total, published, rel_tol=beside)
    else:
        assert total + beside == published


# Bytes that a token adds to the cache, in bf16: by hand, of the layers that attend to all of it and
# of those with a window, and in sum what Transformers 5.24 allocates.
CACHES = {
    "gpt2": (12 * 2 * 12 * 64, 0, 36_864),
    "qwen3-0.6b": (28 * 2 * 8 * 128, 0, 114_688),
    "qwen3-8b": (36 * 2 * 8 * 128, 0, 147_456),
    "qwen2.5-7b": (28 * 2 * 4 * 128, 0, 57_344),
    "llama-3.1-8b": (32 * 2 * 8 * 128, 0, 131_072),
    "llama-3.1-70b": (80 * 2 * 8 * 128, 0, 327_680),
    "llama-3.2-11b-vision": (32 * 2 * 8 * 128, 0, 131_072),  # 8 of 40 layers attend to the image
    "llama-4-maverick": (12 * 2 * 8 * 128, 36 * 2 * 8 * 128, 196_608),  # three of four by chunks
    "mistral-7b-v0.3": (32 * 2 * 8 * 128, 0, 131_072),
    "ministral-8b": (0, 36 * 2 * 8 * 128, 147_456),
    "gemma-2-9b": (21 * 2 * 8 * 256, 21 * 2 * 8 * 256, 344_064),
    "gemma-3-27b": (10 * 2 * 16 * 128, 52 * 2 * 16 * 128, 507_904),
    "gemma-4-26b-a4b": (5 * 2 * 2 * 512, 25 * 2 * 8 * 256, 225_280),
    "gpt-oss-120b": (18 * 2 * 8 * 64, 18 * 2 * 8 * 64, 73_728),
    "command-r7b": (8 * 2 * 8 * 128, 24 * 2 * 8 * 128, 131_072),
    "exaone-4.0-32b": (16 * 2 * 8 * 128, 48 * 2 * 8 * 128, 262_144),
    "phi-3-mini-4k": (0, 32 * 2 * 32 * 96, 393_216),
    "deepseek-v2": (60 * (512 + 64), 0, 69_120),  # the latent, and keys of the position
    "deepseek-v3.2": (61 * (512 + 64 + 128), 0, 85_888),  # and keys of the indexer
    "kimi-k2.5": (61 * (512 + 64), 0, 70_272),
    "glm-5.2": (78 * (512 + 64) + 21 * 128, 0, 95_232),  # 57 layers share another's indexer
    "minimax-m3": (60 * 2 * 4 * 128 + 57 * 128, 0, 137_472),
    "glm-4-9b": (40 * 2 * 2 * 128, 0, 40_960),
    "qwen3.5-397b-a17b": (15 * 2 * 2 * 256, 0, 30_720),  # the others keep a state
    "nemotron-3-nano-30b-a3b": (6 * 2 * 2 * 128, 0, 6_144),
    "granite-4.0-h-small": (4 * 2 * 8 * 128, 0, 16_384),
    "falcon-h1-0.5b": (36 * 2 * 2 * 64, 0, 18_432),
    "lfm2-8b-a1b": (6 * 2 * 8 * 64, 0, 12_288),
    "falcon-mamba-7b": (0, 0, 0),
    "hy3": (80 * 2 * 8 * 128, 0, 327_680),
    "bloom": (70 * 2 * 112 * 128, 0, 4_014_080),
    "santacoder": (24 * 2 * 1 * 128, 0, 12_288),
}


@pytest.mark.parametrize("key", CACHES)
def test_caches_grow_by_what_transformers_allocates(key):
    everywhere, windowed, allocated = CACHES[key]
    model = pm.model(key)
    assert 2 * (everywhere + windowed) == allocated
    assert model.kv_bytes_per_token("bf16", context=1) == allocated
    far = model.position_limit or 1_000_000  # beyond every window
    assert model.kv_bytes_per_token("bf16", context=far) == 2 * everywhere


def test_mistral_v03_has_no_window():
    # Its sliding_window is null; an absent key would mean v0.1's 4096.
    assert pm.model("mistral-7b-v0.3").cache_bytes(32_768, "bf16") == 32_768 * 131_072


# Parameters at work for each token, as model cards round them [billions], and how many of the two
# tables (of the embedding and of the head) a card leaves out.
ACTIVE = {
    "dbrx": (36, 0),
    "deepseek-v3": (37, 1),
    "glm-4.5": (32, 2),
    "glm-4.5-air": (12, 2),
    "gpt-oss-20b": (3.6, 1),
    "hy3": (21, 0),
    "jamba-1.5-large": (94, 0),
    "jamba-1.5-mini": (12, 0),
    "llama-4-maverick": (17, 0),
    "llama-4-scout": (17, 0),
    "minimax-text-01": (45.9, 2),
    "qwen3-235b-a22b": (22, 0),
    "qwen3-coder-30b-a3b": (3.3, 0),
    "qwen3-coder-480b-a35b": (35, 0),
    "qwen3.5-397b-a17b": (17, 0),
}


@pytest.mark.parametrize("key", ACTIVE)
def test_as_many_parameters_are_active_as_cards_say(key):
    billions, tables = ACTIVE[key]
    model = pm.model(key)
    counted = model.active_params - tables * model.vocab * model.hidden
    assert isclose(counted, billions * 1e9, rel_tol=0.025)


class Watched(dict):
    """A config that notes which of its keys somebody looks at, those of sections as ``a.b``."""

    def __init__(self, values, seen, path=""):
        super().__init__(
            (key, Watched(value, seen, f"{path}{key}.") if isinstance(value, dict) else value)
            for key, value in values.items()
        )
        self.seen, self.path = seen, path

    def get(self, key, default=None):
        self.seen.add(f"{self.path}{key}")
        return super().get(key, default)

    def __getitem__(self, key):
        self.seen.add(f"{self.path}{key}")
        return super().__getitem__(key)

    def items(self):
        self.seen.update(f"{self.path}{key}" for key in self)
        return super().items()

    def names(self):
        """Every key and every key of a section."""
        for key in self:
            yield f"{self.path}{key}"
            if isinstance(inner := super().__getitem__(key), Watched):
                yield from inner.names()


def catalog_config(key):
    table = read_toml(catalogs() / "models" / f"{key}.toml")
    config = table["config"]
    for name in table.get("null", ()):
        *sections, field = name.split(".")
        reduce(getitem, sections, config)[field] = None
    return config


def test_the_catalog_is_broad():
    types = {catalog_config(key)["model_type"] for key in pm.models()}
    assert len(pm.models()) >= 70
    assert len(types) >= 25


@pytest.mark.parametrize("key", pm.models())
def test_a_model_says_only_what_the_reader_asks_for(key):
    # A key that nobody reads would be a number that nobody checks.
    watched = Watched(catalog_config(key), set())
    pm.read_hf(watched)
    unread = sorted(set(watched.names()) - watched.seen)
    assert not unread, f"{key}: the reader does not ask for {', '.join(unread)}"


# -- keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "wrong", "nearest"),
    [
        (pm.gpu, "h100", "h100-nvl', 'h100-pcie' or 'h100-sxm"),
        (pm.gpu, "A100-SXM-80", "a100-sxm-80gb"),
        (pm.gpu, "rtx4090", "rtx-4090"),
        (pm.gpu, "h100-sxm-80gb", "h100-sxm"),
        (pm.gpu, "gb200-nvl72", "gb200"),
        (pm.Precision.parse, "fp8-chanel", "fp8-channel"),
        (pm.model, "llama-3.1-8b-instruct", "llama-3.1-8b"),
        (pm.model, "llama-3.1-8", "llama-3.1-8b"),
        (pm.model, "mistral-7b", "mistral-7b-v0.3"),
        (pm.model, "gpt-2", "gpt2"),
    ],
)
def test_an_unknown_key_suggests_the_nearest(call, wrong, nearest):
    with pytest.raises(UnknownKeyError, match=f"did you mean '{nearest}'"):
        call(wrong)


@pytest.mark.parametrize("key", ["", "zzzzzz", "../h100-sxm"])
def test_a_hopeless_key_says_where_the_keys_are(key):
    with pytest.raises(UnknownKeyError, match=r"gpus\(\) lists them"):
        pm.gpu(key)


# -- a user's own chip ------------------------------------------------------------------------

MINE = """\
name = "Mine"
memory_bandwidth = 1e12
peak_flops.bf16 = 1e14

[visible_capacity]
value = 80_000_000_000
unit = "B"
kind = "measured"
source = "my bench"
place = "run 3"
date = "2026-01-31"
"""


def read(tmp_path, text):
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return pm.read_gpu(file)


def test_a_users_chip_keeps_the_origins_it_was_given(tmp_path):
    gpu = read(tmp_path, MINE)
    assert (gpu.name, gpu.memory_bandwidth, gpu.peak("bf16")) == ("Mine", 1e12, 1e14)
    assert gpu.visible_capacity == 80e9
    origins = {origin.field: origin for origin in gpu.origins}
    assert set(origins) == {"memory_bandwidth", "peak_flops.bf16", "visible_capacity"}
    assert origins["memory_bandwidth"].kind == origins["peak_flops.bf16"].kind == "user"
    assert origins["memory_bandwidth"].place == "mine.toml"
    mine = origins["visible_capacity"]
    assert (mine.kind, mine.source.title, mine.date) == ("measured", "my bench", "2026-01-31")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (MINE.replace('unit = "B"', 'unit = "GB"'), ["mine.toml", "visible_capacity", "'GB'"]),
        (MINE.replace("value = 80_000_000_000\n", ""), ["mine.toml", "visible_capacity.value"]),
        (MINE.replace('place = "run 3"', 'where = "run 3"'), ["mine.toml", "where"]),
        (MINE.replace('kind = "measured"', 'kind = "guessed"'), ["kind", "guessed"]),
        (MINE.replace("= 1e12", "= -1e12"), ["memory_bandwidth", "-1"]),
        (MINE.replace("= 1e12", '= "fast"'), ["memory_bandwidth", "fast"]),
        ("memory_clock = 1e9\n" + MINE, ["memory_clock", "unknown field"]),
        (MINE + "[nvlink]\nbandwidth = 1e11", ["nvlink: unknown field", "did you mean 'link'"]),
        (MINE.replace("memory_bandwidth = 1e12\n", ""), ["memory_bandwidth", "missing"]),
        (MINE.replace("peak_flops.bf16", "peak_flops.bf17"), ["bf17", "did you mean 'bf16'"]),
        (MINE.replace("peak_flops.bf16 = 1e14", "peak_flops = 1e14"), ["mine.toml", "peak_flops"]),
        (MINE.replace("peak_flops.bf16 = 1e14\n", ""), ["format"]),
        ("name = ", ["mine.toml", "TOML"]),
    ],
    ids=[
        "wrong unit",
        "missing value",
        "unknown part of an origin",
        "unknown kind",
        "negative",
        "text",
        "unknown field",
        "unknown table",
        "missing field",
        "unknown format",
        "peaks without formats",
        "no peaks",
        "not TOML",
    ],
)
def test_a_users_mistake_is_one_clear_error(tmp_path, text, named):
    with pytest.raises(PerfModelError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    for word in named:
        assert word in message


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(PerfModelError, match=r"none\.toml: no such file"):
        pm.read_gpu(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("memory_bandwidth = {value = 1e12, field = 'x'}", ["memory_bandwidth.field", "unknown"]),
        ("memory_bandwidth = {value = 1e12, source = ['a']}", ["memory_bandwidth.source", "['a']"]),
        ("memory_bandwidth = {value = 1e12, kind = 'rumour'}", ["memory_bandwidth", "'rumour'"]),
        ("memory_bandwidth = 1e12\norigins = []", ["origins", "unknown field"]),
        ("memory_bandwith = 1e12", ["memory_bandwith", "did you mean 'memory_bandwidth'"]),
        ("memory_clock = {value = 1e9, unit = 'Hz'}", ["memory_clock", "unknown field"]),
    ],
)
def test_a_wrong_table_names_file_and_field(tmp_path, text, named):
    path = tmp_path / "mine.toml"
    path.write_text(f"{text}\n[peak_flops]\nbf16 = 1e14\n")
    with pytest.raises(PerfModelError) as caught:
        pm.read_gpu(path)
    assert "mine.toml" in str(caught.value)
    for word in named:
        assert word in str(caught.value)


@pytest.mark.parametrize("path", [5, None, ["x"]])
def test_a_path_is_a_path(path):
    with pytest.raises(PerfModelError, match="expected the path of a TOML file"):
        pm.read_gpu(path)


def test_toml_dates_are_dates(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        "memory_bandwidth = {value = 1e12, date = 2026-11-29}\npeak_flops.bf16 = 1e14\n"
    )
    assert pm.read_gpu(path).origins[0].date == "2026-11-29"
