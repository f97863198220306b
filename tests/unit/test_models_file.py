"""A file of models: read whole, and every fault in a line of its own before anything is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deploy.models.faults import faults_of
from deploy.models.file import parse, read_file
from schemas.control import ModelRecord, TypeSupport
from schemas.errors import UsageError
from schemas.pools import DEFAULT_POOLS, ComputeType

GPU, CPU, NPU = ComputeType.GPU, ComputeType.CPU, ComputeType.NPU
TOML = """
[[models]]
name = "llama-13b"
parameters = 13_000_000_000
precision = "int4"
pinned = ["gpu", "npu"]
types.gpu.precisions = ["fp16", "int4"]

[[models]]
name = "phi"
"""


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(TOML)
    (tmp_path / "m.json").write_text(
        '{"models": [{"name": "llama-13b", "parameters": 13000000000, "precision": "int4", '
        '"pinned": ["gpu", "npu"], "types": {"gpu": {"precisions": ["fp16", "int4"]}}}, '
        '{"name": "phi"}]}'
    )
    parsed = read_file(tmp_path / "m.toml")
    assert parsed == read_file(tmp_path / "m.json")
    assert parsed.faults == ()
    assert [model.name for model in parsed.models] == ["llama-13b", "phi"]
    assert parsed.models[0].types == {GPU: TypeSupport(precisions=("fp16", "int4"))}


def test_the_file_in_the_documents_has_no_fault(tmp_path: Path) -> None:
    document = Path(__file__).parents[2] / "docs" / "models.md"
    (tmp_path / "m.toml").write_text(document.read_text().split("```toml")[1].split("```")[0])
    parsed = read_file(tmp_path / "m.toml")
    assert len(parsed.models) == 2
    assert not [*parsed.faults, *(f for m in parsed.models for f in faults_of(m, DEFAULT_POOLS))]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("m.toml", "models = ", "is not TOML"),
        ("m.json", "{", "is not JSON"),
        ("m.toml", b"\xff", "is not TOML"),
        ("absent.toml", None, "cannot be read"),
    ],
)
def test_what_is_no_file_of_models_is_refused_in_one_line(
    tmp_path: Path, name: str, content: Any, told: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=told):
        read_file(tmp_path / name)


@pytest.mark.parametrize(
    ("document", "faults"),
    [
        ([], ["the file: give one array `models` with a table for each, and no more"]),
        ({"models": []}, ["the file: give one array `models` with a table for each, and no more"]),
        (
            {"models": [{"name": "a"}], "model": []},
            ["the file: give one array `models` with a table for each, and no more"],
        ),
        ({"models": ["a"]}, ["model 1: it is no table"]),
        ({"models": [{}]}, ["model 1: name: Field required"]),
        ({"models": [{"name": ""}]}, ["model 1 (): name: give 1 to 256 characters"]),
        (
            {"models": [{"name": "a", "colour": 1, "types": {"gpu": {"precision": "int4"}}}]},
            [
                "model 1 (a): types.gpu.precision: there is no such field",
                "model 1 (a): colour: there is no such field",
            ],
        ),
        (
            {"models": [{"name": "a"}, {"name": "b", "pinned": ["tpu"]}]},
            ["model 2 (b): pinned.0: Input should be 'gpu', 'cpu' or 'npu'"],
        ),
        ({"models": [{"name": "a"}] * 2}, ["model a: it stands there 2 times; give it once"]),
        (
            {"models": [{"name": "a", "revision": 4}]},
            ["model 1 (a): revision: we write it; leave it out"],
        ),
    ],
)
def test_a_fault_is_a_line_that_says_where(document: Any, faults: list[str]) -> None:
    assert list(parse(document).faults) == faults


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"parameters": 13_000_000_000, "pinned": (GPU,)}, []),
    ({"parameters": 13}, ["parameters: 13 weights would make it a small model"]),
    ({"pinned": ()}, ["pinned: to nothing, so it runs nowhere"]),
    ({"pinned": (NPU,)}, ["pinned: no pool has the compute type npu"]),
    ({"precision": "fp16"}, []),
    ({"precision": "int4"}, ["precision: int4 is listed by no compute type of the pools"]),
    ({"precision": "int4", "types": {GPU: TypeSupport(precisions=("int4",))}}, []),
    (
        {"precision": "int8", "types": {NPU: TypeSupport(precisions=("int8",))}},
        ["precision: int8 is listed by no compute type of the pools"],
    ),
    (
        {"precision": "fp8", "types": {k: TypeSupport(precisions=("fp16",)) for k in ComputeType}},
        ["no pool may run it: cpu: precision fp8 is not run on cpu; gpu: precision fp8 is not"],
    ),
    (
        {
            "precision": "int8",
            "pinned": (GPU, CPU),
            "types": {
                GPU: TypeSupport(precisions=("int8",)),
                CPU: TypeSupport(precisions=("fp16",)),
            },
        },
        ["pinned: to cpu, but precision int8 is not run on cpu"],
    ),
    ({"operators": ("warp",)}, ["operators: warp is validated on no compute type of the pools"]),
    ({"operators": ("warp",), "types": {GPU: TypeSupport(operators=("warp",))}}, []),
    (
        {
            "operators": ("warp",),
            "pinned": (CPU,),
            "types": {GPU: TypeSupport(operators=("warp",))},
        },
        ["no pool may run it: cpu: operator warp is not validated on cpu; gpu: model m is pinned"],
    ),
    (
        {"types": {GPU: TypeSupport(tokenizer_digest="a")}},
        ["types.gpu.tokenizer_digest: it is compared with the model's own tokenizer_digest"],
    ),
    ({"tokenizer_digest": "a", "types": {GPU: TypeSupport(tokenizer_digest="b")}}, []),
    (
        {
            "tokenizer_digest": "a",
            "pinned": (GPU,),
            "types": {GPU: TypeSupport(tokenizer_digest="b")},
        },
        ["no pool may run it: cpu: model m is pinned to gpu; gpu: the tokenizer on gpu differs"],
    ),
]


@pytest.mark.parametrize(("said", "faults"), CASES)
def test_a_model_that_cannot_be_right_for_these_pools_has_a_fault(
    said: dict[str, Any], faults: list[str]
) -> None:
    without_npu = tuple(pool for pool in DEFAULT_POOLS if pool.compute_type is not NPU)
    found = faults_of(ModelRecord(name="m", **said), without_npu)
    assert len(found) == len(faults)
    for is_, should in zip(found, faults, strict=True):
        assert is_.startswith(f"model m: {should}")
