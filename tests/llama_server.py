"""A real server of the OpenAI protocol: llama.cpp's own, with the tiny model and its adapters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from deploy.local.tiny_model import ADAPTERS, CONTEXT, MODEL_NAME, MODEL_PATH

SERVE = """
import sys, threading, xllamacpp
path, name, context, *adapters = sys.argv[1:]
told = xllamacpp.CommonParams()
told.model.path, told.model_alias = path, {name}
told.hostnames, told.port, told.n_threads_http = ["127.0.0.1"], 0, 8
told.n_parallel, told.n_ctx = 2, 2 * int(context)
told.cpuparams.n_threads = told.cpuparams_batch.n_threads = 1
told.embedding, told.pooling_type = True, xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
told.endpoint_metrics, told.ui, told.verbosity, told.fit_params = True, False, 0, False
told.cache_ram_mib = 0
for adapter in adapters:  # each with scale 1: the server applies them all unless it is told
    info = xllamacpp.CommonAdapterLoraInfo()
    info.path, info.scale = adapter, 1.0
    told.lora_adapters += [info]
server = xllamacpp.Server(told)
print(server.listening_address, flush=True)
sys.stdin.read()  # until whoever started it is gone
"""


@contextmanager
def llama_server() -> Iterator[str]:
    """Run the server and yield its URL."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", SERVE, str(MODEL_PATH), MODEL_NAME, str(CONTEXT)),
            *(str(path) for path in ADAPTERS.values()),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address, "the server ended at its start"
            yield f"{address}/v1"
        finally:
            process.kill()
