"""A server of the Open Inference Protocol on Magika's real model, and MLServer with the same.

The first is ours, small, and answers errors in MLServer's forms; the second is the real one, where
it is installed: `make mlserver` puts it beside the project, 300 MB in an environment of its own.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from executors.backends.base import BackendError
from executors.backends.onnx_session import CPU, Session, Stop
from runtime.ports import free_port
from tests import magika

MLSERVER = Path(os.environ.get("OVERSPILL_TEST_MLSERVER", ".venv-mlserver/bin/mlserver")).absolute()
OPENED = {"provider": CPU, "model_path": str(magika.PATH), "threads": 1, "dimensions": {},
          "provider_options": {}}  # fmt: skip
SPOILT: dict[str, dict[str, Any]] = {
    "another-model": {"model_name": "other", "outputs": [{"name": "y", "data": [1]}]},
    "no-outputs": {"model_name": "no-outputs"},
    "no-data": {"model_name": "no-data", "outputs": [{"name": "y"}]},
}
"""Models whose answers are wrong in form."""
TRACEBACK = "traceback"
"""A model that fails as MLServer's do: a traceback in plain text."""

RUNTIME = """
import numpy, onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse, MetadataTensor

class OrtModel(MLModel):
    async def load(self):
        self._session = onnxruntime.InferenceSession(self._settings.parameters.uri)
        self.inputs = [MetadataTensor(name="bytes", datatype="INT32", shape=[-1, 2048])]
        return True

    async def predict(self, payload):
        feeds = {one.name: NumpyCodec.decode_input(one) for one in payload.inputs}
        names = [one.name for one in self._session.get_outputs()]
        answers = zip(names, self._session.run(None, feeds))
        return InferenceResponse(
            model_name=self.name, id=payload.id,
            outputs=[NumpyCodec.encode_output(name, answer) for name, answer in answers],
        )
"""


@asynccontextmanager
async def oip_server() -> AsyncIterator[str]:
    """Run our server and yield its URL."""
    session = Session(OPENED)
    input_ = {"name": "bytes", "datatype": "INT32", "shape": [-1, 2048]}

    async def server(_: web.Request) -> web.Response:
        return web.json_response({"name": "test-server", "version": "1", "extensions": []})

    async def ready(_: web.Request) -> web.Response:
        return web.Response()

    async def model(request: web.Request) -> web.Response:
        name = request.match_info["model"]
        if name not in (magika.NAME, TRACEBACK, *SPOILT):
            return web.json_response({"error": f"Model {name} not found"}, status=404)
        return web.json_response({"name": name, "inputs": [input_]})

    async def infer(request: web.Request) -> web.Response:
        name, body = request.match_info["model"], orjson.loads(await request.read())
        if name == TRACEBACK:
            return web.Response(status=500, text='Traceback (most recent call last):\n  "secret"')
        if name in SPOILT:
            return web.json_response(SPOILT[name])
        try:
            answer = await asyncio.to_thread(session.run, body, Stop())
        except BackendError as error:
            return web.json_response({"detail": [{"msg": str(error)}]}, status=422)
        return web.json_response({"model_name": name, "id": body["id"], **answer})

    app = web.Application()
    app.router.add_get("/v2", server)
    app.router.add_get("/v2/health/ready", ready)
    app.router.add_get("/v2/models/{model}", model)
    app.router.add_get("/v2/models/{model}/ready", model)
    app.router.add_post("/v2/models/{model}/infer", infer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@contextmanager
def mlserver() -> Iterator[str]:
    """Run MLServer and yield its URL; a backend waits until it is ready."""
    port = free_port()
    settings = {"host": "127.0.0.1", "http_port": port, "grpc_port": free_port(),
                "metrics_port": free_port(), "parallel_workers": 0}  # fmt: skip
    model = {"name": magika.NAME, "implementation": "runtime.OrtModel",
             "parameters": {"uri": str(magika.PATH)}}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "settings.json").write_bytes(orjson.dumps(settings))
        (Path(folder) / "model-settings.json").write_bytes(orjson.dumps(model))
        (Path(folder) / "runtime.py").write_text(RUNTIME)
        with subprocess.Popen(
            [MLSERVER, "start", "."], cwd=folder, env={**os.environ, "PYTHONPATH": "."},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            try:
                yield f"http://127.0.0.1:{port}"
            finally:
                process.terminate()
