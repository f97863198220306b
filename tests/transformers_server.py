"""`transformers serve` with the tiny model, an OpenAI server that shares no code with llama.cpp.

Runs where it is installed: `make transformers-serve` puts it beside the project, in an environment
of its own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.local.tiny_model import MODEL_NAME, MODEL_PATH
from runtime.ports import free_port

PYTHON = Path(
    os.environ.get("OVERSPILL_TEST_TRANSFORMERS", ".venv-transformers/bin/python")
).absolute()
CONVERT = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, file, out = sys.argv[1:]
AutoTokenizer.from_pretrained(folder, gguf_file=file).save_pretrained(out)
quantized = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file)
del quantized.config.quantization_config  # its weights are plain numbers now
plain = type(quantized)(quantized.config)
plain.load_state_dict(quantized.state_dict())
plain.save_pretrained(out)
"""


@contextmanager
def transformers_server(folder: Path) -> Iterator[str]:
    """Put the model into the folder as the library wants it, serve it, and yield the URL.

    A backend waits until it is ready.
    """
    told = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    convert = [PYTHON, "-c", CONVERT, MODEL_PATH.parent, MODEL_PATH.name, folder / MODEL_NAME]
    subprocess.run(convert, env=told, check=True, capture_output=True)
    port = free_port()
    process = subprocess.Popen(
        [
            *(PYTHON.with_name("transformers"), "serve", MODEL_NAME),
            *("--host", "127.0.0.1", "--port", str(port), "--device", "cpu"),
        ],
        cwd=folder, env=told, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with process:
        try:
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()
