"""Draw the rooflines of two chips and what a decode step of an 8B model does below them.

`python draw_roofs.py FOLDER` keeps the pictures; without a folder they go into a temporary one.
The figures of both chips are the dense ones of the roofline article of the "Word Factory" series.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import perfmodel as pm

CHIPS = (
    pm.GpuSpec(name="H100 SXM", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12}),
    pm.GpuSpec(name="B200", memory_bandwidth=8e12, peak_flops={"bf16": 2250e12}),
)
MODEL = pm.model("llama-3.1-8b")


def draw(chip: pm.GpuSpec, folder: Path) -> None:
    step = pm.decode(MODEL, chip, batch=64, context=4096)
    ax = pm.plots.roofline(chip, operations=step)
    file = folder / f"{chip.name}.svg"
    ax.figure.savefig(file)
    print(f"{file.name}: ridge at {pm.ridge_intensity(chip):.0f} FLOP/B; {step.bound}-bound")
    for text in ax.texts:
        print(f"  {text.get_text()}")


def main() -> None:
    with TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        for chip in CHIPS:
            draw(chip, folder)


if __name__ == "__main__":
    main()
