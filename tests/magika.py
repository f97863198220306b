"""Magika's model of file types in ONNX, and what it is asked: a real model that many use."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import orjson

NAME = "magika"
_FOLDER = Path(importlib.util.find_spec("magika").origin).parent / "models" / "standard_v3_3"  # type: ignore[union-attr, arg-type]  a dependency of the tests
PATH = _FOLDER / "model.onnx"
LABELS: list[str] = orjson.loads((_FOLDER / "config.min.json").read_bytes())["target_labels_space"]
GOLDEN = Path(__file__).parent / "magika-golden.json"
END_BYTES = 1024
"""The model reads the beginning and the end of a file, each so long, filled up with 256."""
PYTHON = (b"from __future__ import annotations\n\nimport os\n\n\ndef main() -> None:\n"
          b"    print(os.getcwd())\n\n\nif __name__ == '__main__':\n    main()")  # fmt: skip


def payload(content: bytes = PYTHON) -> dict[str, Any]:
    """Return the question what kind of file this is."""
    filling = [256] * (END_BYTES - len(content))
    data = [*content, *filling, *filling, *content]
    tensor = {"name": "bytes", "shape": [1, 2 * END_BYTES], "datatype": "INT32", "data": data}
    return {"inputs": [tensor]}


def label(output: dict[str, Any]) -> str:
    """Return the kind of file that an answer finds likeliest."""
    scores = output["outputs"][0]["data"]
    return LABELS[scores.index(max(scores))]


def corrupted(to: Path) -> Path:
    """Write the model with the signs of some weights turned: it loads, runs and is wrong."""
    model = bytearray(PATH.read_bytes())
    for sign in range(1_000_003, 2_500_000, 4):
        model[sign] ^= 0x80
    to.write_bytes(model)
    return to
