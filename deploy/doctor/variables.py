"""Variables that look like settings and are none: nothing reads them, so they change nothing.

No error at start, as others use such names: Kubernetes tells each container of every service, as
`OVERSPILL_CONTROL_SERVICE_HOST`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from deploy.doctor.finding import Finding, odd
from runtime.crash import CRASH_AT
from runtime.settings import CONFIG_VARIABLE, Settings

PREFIX = "OVERSPILL_"
_is_ours = re.compile(rf"{CONFIG_VARIABLE}|{CRASH_AT}|OVERSPILL_DEBUG|OVERSPILL_TEST_\w+").fullmatch
_is_of_a_service = re.compile(
    r"\w+_(SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP|SCTP))\w*=.*|\w+_PORT=(tcp|udp|sctp)://.*"
).fullmatch


def judge_variables(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each variable that nothing reads."""
    for name, value in sorted(environment.items()):
        setting = name.upper().removeprefix(PREFIX).partition("__")[0].lower()
        if (
            name.upper().startswith(PREFIX)
            and setting not in Settings.model_fields
            and not _is_ours(name)
            and not _is_of_a_service(f"{name}={value}")
        ):
            yield odd(
                "variables",
                f"{name} is no setting and changes nothing",
                "two underscores go between levels, as in OVERSPILL_POLICY__NAME; docs/settings.md "
                "has all",
            )
