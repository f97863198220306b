"""The settings tree: `overspill.toml`, then `OVERSPILL_*`, then flags, each overriding the last.

Declared once: docs/settings.md is generated from it. A process reads it at start and never changes
it; what changes while running travels by topics.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from schemas.errors import UsageError
from schemas.pools import DEFAULT_POOLS, Pool, check_configured
from schemas.topics import DEFAULT_PREFIX, TopicNames

DEFAULT_FILE = Path("overspill.toml")
CONFIG_VARIABLE = "OVERSPILL_CONFIG"
"""Names another file."""
_is_host = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]").fullmatch


class _Group(BaseModel):
    # Errors never quote what was given: it may be a secret.
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
    )


def _addresses(text: str) -> str:
    # What the client library makes of other forms is a guess, or an error in words of its own.
    for address in text.split(","):
        host, _, port = address.strip().rpartition(":")
        if not (_is_host(host) and port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
            raise ValueError(
                "write each address as host:port, as broker-1:9092, several separated by commas"
            )
    return text


class KafkaSettings(_Group):
    """Where the broker is and how it is spoken to."""

    bootstrap_servers: Annotated[str, AfterValidator(_addresses)] = "127.0.0.1:9092"
    """host:port, several separated by commas."""
    instance_id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]{1,200}$")
    """Name that a router or node keeps when its supervisor restarts it, as in a StatefulSet: its
    partitions wait for it instead of moving. No two processes of a group may share one."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_SSL"] = "PLAINTEXT"
    """PLAINTEXT: for loopback. SSL: TLS, and certificate_file says who we are. SASL_SSL: TLS, and
    username and password do."""
    ca_file: Path | None = None
    """PEM of who signs the brokers' certificates; without one, whom this machine trusts."""
    certificate_file: Path | None = None
    """PEM of our own certificate, for brokers that ask for one."""
    key_file: Path | None = None
    """PEM of its key, without a passphrase; not needed if it is in certificate_file."""
    sasl_mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256"] = "SCRAM-SHA-512"
    """How the password is proven; it is never sent."""
    username: str | None = Field(default=None, min_length=1)
    """Who we are with SASL_SSL."""
    password_file: Path | None = None
    """File that holds the password, as a secret is mounted; the last line's end is not part of it.
    It is read at start."""
    password: SecretStr | None = None
    """The password itself: from OVERSPILL_KAFKA__PASSWORD, never from a flag."""

    @model_validator(mode="after")
    def _closed_or_open(self) -> KafkaSettings:
        return _all_of_it_used(self)


def _all_of_it_used(kafka: KafkaSettings) -> KafkaSettings:
    """Refuse what would be ignored: who configures a password means to be protected by it."""
    passwords = [kafka.password_file is not None, kafka.password is not None]
    if kafka.security_protocol == "SASL_SSL":
        if kafka.username is None or sum(passwords) != 1:
            raise ValueError(
                "SASL_SSL needs username, and the password from either password_file or "
                "OVERSPILL_KAFKA__PASSWORD"
            )
    elif kafka.username is not None or any(passwords):
        raise ValueError("username and password are for security_protocol SASL_SSL: set that")
    files = [kafka.ca_file, kafka.certificate_file, kafka.key_file]
    if kafka.security_protocol == "PLAINTEXT" and any(files):
        raise ValueError("certificates are for security_protocol SSL or SASL_SSL: set one of them")
    if kafka.key_file is not None and kafka.certificate_file is None:
        raise ValueError("key_file is the key of certificate_file: set that too")
    return kafka


class PolicySettings(_Group):
    """Which policy routes."""

    name: str = "overflow"
    """overflow, predictive, gpu-only, round-robin or static-threshold; predictive/600 lets batch
    without an objective wait 600 s for cheap capacity, instead of an hour."""
    shadow: str | None = None
    """A second policy that decides beside it, without effect: metrics tell how they differ."""
    threshold: Literal["article", "stable"] = "article"
    """What moves the overflow threshold: article, one a second by the article's rule; stable, a
    controller with a stated settling time (docs/policy.md). Read by the control plane."""


class WebSettings(_Group):
    """The endpoint for metrics and health."""

    host: str = "127.0.0.1"
    """Loopback: nothing is open to the network unless you say so."""
    port: int = Field(default=0, ge=0, le=65535)
    """0: a free one, which is logged."""


Listed = Annotated[tuple[str, ...], Field(max_length=100)]


class MetricsSettings(_Group):
    """Which of the names that callers choose become label values; at most 100 of a kind."""

    models: Listed = ()
    """Models that metrics tell apart; all others are `other`."""
    tenants: Listed = ()
    """Tenants that metrics tell apart; all others, and requests without one, are `other`."""


class CanarySettings(_Group):
    """A small request that control sends through each compute type, to see that its end comes."""

    model: str | None = Field(default=None, min_length=1, max_length=256)
    """Model that a canary asks for one token; each compute type should have it. None: no canary."""
    every_s: float = Field(default=60.0, ge=1.0)
    """Seconds from round to round."""


class LogSettings(_Group):
    """What a process prints."""

    format: Literal["text", "json"] = "text"
    """text for people, json (one object a line) for collectors."""
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """The least severe level that is printed."""


class TracingSettings(_Group):
    """Where spans go (docs/tracing.md)."""

    endpoint: str | None = None
    """OTLP over HTTP of a collector, as http://127.0.0.1:4318/v1/traces; needs the extra `tracing`.
    Credentials for it go into OTEL_EXPORTER_OTLP_HEADERS."""


class Settings(BaseSettings):
    """Everything that can be configured."""

    model_config = SettingsConfigDict(
        env_prefix="OVERSPILL_",
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
    )

    prefix: str = Field(default=DEFAULT_PREFIX, pattern=r"^[A-Za-z0-9._-]{0,60}$")
    """In front of every topic, group and transactional id."""
    kafka: KafkaSettings = KafkaSettings()
    pools: tuple[Pool, ...] = DEFAULT_POOLS
    """Each with name, compute_type, cost_coefficient (gpu = 1.0) and express."""
    policy: PolicySettings = PolicySettings()
    backends: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """By name of the backend what its nodes are told (docs/backends.md), as
    `backends.openai.url`."""
    web: WebSettings = WebSettings()
    metrics: MetricsSettings = MetricsSettings()
    canary: CanarySettings = CanarySettings()
    log: LogSettings = LogSettings()
    tracing: TracingSettings = TracingSettings()

    @field_validator("pools")
    @classmethod
    def _a_fleet(cls, pools: tuple[Pool, ...]) -> tuple[Pool, ...]:
        return check_configured(pools)

    @property
    def topics(self) -> TopicNames:
        """Return the names of all topics."""
        return TopicNames(self.prefix)

    def pool(self, name: str) -> Pool:
        """Return the pool of that name; raise UsageError if none is configured."""
        for pool in self.pools:
            if pool.name == name:
                return pool
        known = ", ".join(pool.name for pool in self.pools)
        raise UsageError(f"no pool {name!r} is configured; configured are: {known}")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources, strongest first: flags, environment, file."""
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load_settings(config: Path | None = None, flags: dict[str, Any] | None = None) -> Settings:
    """Return the settings from file, environment and flags; raise UsageError with what is wrong.

    Args:
        config: the file; without one that of OVERSPILL_CONFIG, else `overspill.toml` here, if it
            exists.
        flags: dotted names to values, as `{"kafka.bootstrap_servers": "host:9092"}`.
    """
    stated = os.environ.get(CONFIG_VARIABLE)
    file = config or Path(stated or DEFAULT_FILE)
    if (config or stated) and not file.is_file():
        by = "to --config" if config else f"by {CONFIG_VARIABLE}"
        raise UsageError(f"no settings file {file}; check the path given {by}")

    class _FromFile(Settings):
        model_config = SettingsConfigDict(toml_file=file)

    tree = _nested(flags or {})
    if _names_a_password(tree):
        raise UsageError(
            "kafka.password: other users of this machine see flags; put it into "
            "OVERSPILL_KAFKA__PASSWORD or a file named by kafka.password_file"
        )
    try:
        return _FromFile(**tree)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "settings"
        if first["type"] == "extra_forbidden":
            raise UsageError(f"there is no setting {where}; docs/settings.md has all") from None
        raise UsageError(
            f"{where}: {first['msg'].removeprefix('Value error, ')}; see docs/settings.md"
        ) from None
    except SettingsError as error:
        raise UsageError(
            f"a variable is no JSON ({error}); set its parts instead, as "
            "OVERSPILL_KAFKA__BOOTSTRAP_SERVERS"
        ) from None
    except ValueError as error:
        raise UsageError(f"{file} is not TOML: {error}") from None


def parse_flag(text: str) -> tuple[str, Any]:
    """Return the name and value of `--set a.b=value`; values are JSON where they read as JSON."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--set {text}: write it as name=value, as --set policy.name=gpu-only")
    try:
        return name, orjson.loads(value)
    except orjson.JSONDecodeError:
        return name, value


def _names_a_password(flags: dict[str, Any]) -> bool:
    kafka = flags.get("kafka")
    return isinstance(kafka, dict) and kafka.get("password") is not None


def _nested(flags: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for dotted, value in flags.items():
        *path, leaf = dotted.split(".")
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        node[leaf] = value
    return tree
