"""The tiny-docs model: where its weights lie and what they are.

It owns the facts of the file next to it (README.md is its model card). It must not know who runs
the model, nor import an engine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

MODEL_NAME: Final = "tiny-docs"
MODEL_PATH: Final = Path(__file__).with_name("tiny-docs.gguf")
PARAMETERS: Final = 2_164_416
CONTEXT: Final = 512  # tokens of prompt and answer together; what the positions were trained on
