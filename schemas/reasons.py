"""Each reason of the policy in a few plain words, for screens; docs/policy.md has the rules."""

from __future__ import annotations

from schemas.outcomes import Reason

IN_WORDS: dict[str, str] = {
    Reason.EXPIRED: "its time had passed",
    Reason.UNROUTABLE: "no pool may run it",
    Reason.WAITING: "the pools it may use are down",
    Reason.STICKY: "its conversation's cache is there",
    Reason.STRICT_SLO: "under 50 ms: GPU, express lane",
    Reason.REALTIME: "realtime: GPU, express lane",
    Reason.TENSOR_PARALLEL: "several GPUs share it",
    Reason.LORA: "LoRA: a free NPU slot",
    Reason.SMALL_MODEL: "small model: NPU or CPU",
    Reason.GPU_PREFERRED: "the GPU's queue was short",
    Reason.OVERFLOW: "GPU queue long: cheapest free slot",
    Reason.FALLBACK: "GPU queue long, no other slot free",
    Reason.CHEAPEST: "the cheapest pool that meets its objective",
    Reason.PATIENT: "waits for the cheapest pool",
    Reason.SOONEST: "no pool meets it: where it ends first",
    Reason.EXPLORING: "tries a pool that is little known",
    Reason.BASELINE: "the baseline policy said so",
    Reason.BLIND: "control plane silent: by the key",
}
