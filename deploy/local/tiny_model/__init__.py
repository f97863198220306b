"""The tiny-docs model and its LoRA adapters: where the weights lie and what they are.

It owns the facts of the files next to it (README.md is its model card). It must not know who runs
the model, nor import an engine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

MODEL_NAME: Final = "tiny-docs"
MODEL_PATH: Final = Path(__file__).with_name("tiny-docs.gguf")
ADAPTERS: Final = {
    name: MODEL_PATH.with_name("adapters") / f"{name}.gguf" for name in ("code", "news", "legal")
}
PARAMETERS: Final = 2_164_416
CONTEXT: Final = 512  # tokens of prompt and answer together; what the positions were trained on
