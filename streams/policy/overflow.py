"""The `overflow` policy: rules 6 to 10 of the table in docs/policy.md, top to bottom.

Rules 1 to 5 hold for every policy and are in `rules`.
"""

from __future__ import annotations

from schemas.features import Features
from schemas.outcomes import Reason
from streams.policy.offers import Choice, Offers


def overflow(features: Features, offers: Offers, threshold: int) -> Choice:
    """Return the gpu while its queue is short, else the cheapest pool that will do."""
    gpu, cpu, npu, slo_ms = offers.gpu, offers.cpu, offers.npu, features.slo_ms

    # 6. LoRA adapters belong on a free npu; as in the article, without a look at the objective.
    if features.lora and npu and npu.has_free_slot():
        return npu, Reason.LORA, None

    # 7. Small models do well off the gpu.
    if offers.small:
        if npu and npu.has_free_slot():
            return npu, Reason.SMALL_MODEL, None
        if cpu and cpu.meets(slo_ms) and cpu.pool.queue_depth < threshold:
            return cpu, Reason.SMALL_MODEL, None

    # 8. The gpu, while its queue is short.
    if gpu and gpu.pool.queue_depth < threshold:
        return gpu, Reason.GPU_PREFERRED, None

    # 9. The cheapest pool that can start it now and meets the objective.
    for offer in offers.open:
        if offer.has_free_slot() and offer.meets(slo_ms):
            return offer, Reason.OVERFLOW, None

    # 10. Wait for the gpu; where it is down or excluded, for the cheapest pool that is not.
    return gpu or offers.open[0], Reason.FALLBACK, None
