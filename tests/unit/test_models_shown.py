"""`models list` shows what is registered and what is served, whichever of the two a model is."""

from __future__ import annotations

import pytest

from deploy.cli.models_shown import registry_json, registry_view, served_by
from deploy.cli.tables import console
from schemas.control import ModelRecord, NodeState
from streams.registry import Registry

REGISTRY = Registry({"small": ModelRecord(name="small", parameters=820_000)}, None)


def node(name: str, *models: str, live: bool = True, adapters: tuple[str, ...] = ()) -> NodeState:
    pool = name.partition("-")[0]
    return NodeState(
        id=name, pool=pool, live=live, slots=1, latency_ms=1, models=models, adapters=adapters
    )


FLEET = (
    node("gpu-1", "docs", "small", adapters=("legal",)),
    node("cpu-1", "docs", adapters=("legal", "news")),
    node("cpu-2", "docs"),
    node("npu-1", "gone", live=False),
)


def shown(capsys: pytest.CaptureFixture[str], *nodes: NodeState) -> list[str]:
    console().print(registry_view(REGISTRY, served_by(nodes)))
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_each_model_is_a_line_with_the_pools_that_serve_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = shown(capsys, *FLEET)
    assert "small 820,000 0 yes ? - - - gpu" in lines
    assert "docs ? - ? ? ? ? ? cpu, gpu" in lines
    assert "adapter legal: cpu, gpu" in lines
    assert "adapter news: cpu" in lines
    assert not any("gone" in line or "any model" in line for line in lines)
    assert lines[-1].startswith("what has no revision is not registered")


def test_nodes_that_list_no_models_serve_any(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, node("npu-1"), node("cpu-1"))
    assert "small 820,000 0 yes ? - - - -" in lines
    assert "any model: cpu, npu" in lines
    assert "never changed" in lines[-1]


def test_json_tells_both() -> None:
    document = registry_json(REGISTRY, served_by(FLEET))
    assert [model["name"] for model in document["models"]] == ["small"]
    assert document["served"] == {
        "models": {"docs": ["cpu", "gpu"], "small": ["gpu"]},
        "adapters": {"legal": ["cpu", "gpu"], "news": ["cpu"]},
        "any": [],
    }
