"""The cache of jars: filled once, by one process, then enough without a network."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from deploy.local.kafka import jars
from schemas.errors import LocalKafkaError, UsageError

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "overspill" / f"kafka-{jars.KAFKA_VERSION}"


class Repository:
    """Stands for the resolver: gives two jars, slowly enough to be met by a second process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fetches = 0
        monkeypatch.setattr(jars, "_fetch", self.fetch)

    def fetch(self, repository: Path, _progress: object) -> list[Path]:
        self.fetches += 1
        repository.mkdir(parents=True)
        paths = [repository / "kafka.jar", repository / "log4j.jar"]
        for path in paths:
            path.write_bytes(b"jar")
            time.sleep(0.02)
        return paths


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Repository:
    return Repository(monkeypatch)


def ignore(_line: str) -> None:
    pass


def test_the_first_start_fetches_and_later_ones_do_not(repository: Repository, cache: Path) -> None:
    assert jars.kafka_folder(ignore) == cache
    assert jars.kafka_folder(ignore) == cache
    assert repository.fetches == 1
    assert sorted(path.name for path in (cache / "jars").iterdir()) == ["kafka.jar", "log4j.jar"]


@pytest.mark.parametrize("harm", ["missing", "cut short", "manifest unreadable"])
def test_a_damaged_cache_is_filled_anew(repository: Repository, cache: Path, harm: str) -> None:
    jars.kafka_folder(ignore)
    if harm == "missing":
        (cache / "jars" / "kafka.jar").unlink()
    elif harm == "cut short":
        (cache / "jars" / "kafka.jar").write_bytes(b"j")
    else:
        (cache / "manifest.json").write_text("{")
    jars.kafka_folder(ignore)
    assert repository.fetches == 2
    assert (cache / "jars" / "kafka.jar").read_bytes() == b"jar"


def test_what_a_killed_fetch_left_is_not_trusted(repository: Repository, cache: Path) -> None:
    left = cache.with_name(f"{cache.name}.partial")
    (left / "jars").mkdir(parents=True)
    (left / "jars" / "half.jar").write_bytes(b"h")
    jars.kafka_folder(ignore)
    assert repository.fetches == 1
    assert not (cache / "jars" / "half.jar").exists()
    assert not left.exists()


def test_parallel_first_starts_fetch_once_and_the_others_say_that_they_wait(
    repository: Repository,
) -> None:
    said: list[str] = []
    starts = [threading.Thread(target=jars.kafka_folder, args=(said.append,)) for _ in range(4)]
    for start in starts:
        start.start()
    for start in starts:
        start.join()
    assert repository.fetches == 1
    assert any("Waiting for another process" in line for line in said)


def test_a_full_cache_needs_neither_the_resolver_nor_its_http_client(
    repository: Repository, tmp_path: Path
) -> None:
    jars.kafka_folder(ignore)
    assert repository.fetches == 1
    code = (
        "import sys; from deploy.local.kafka.jars import kafka_folder; kafka_folder(print); "
        "sys.exit(bool({'jgo', 'requests'} & set(sys.modules)))"
    )
    environment = {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_without_a_network_one_line_says_what_to_do_and_names_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@127.0.0.1:9")  # nobody listens there
    with pytest.raises(LocalKafkaError, match="cannot fetch Apache Kafka") as raised:
        jars.kafka_folder(ignore)
    said = str(raised.value)
    assert "\n" not in said
    assert "secret" not in said
    assert "://" not in said
    assert not cache.exists()
    assert not caplog.records


def test_a_mirror_of_the_users_configuration_is_asked_instead_of_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "jgo.conf"
    config.write_text("[repositories]\ncentral = http://127.0.0.1:9/mirror\n")
    monkeypatch.setenv("JGO_CONFIG_FILE", str(config))
    # The default repository would be asked through this proxy; the mirror is asked directly.
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(LocalKafkaError, match="ConnectionError") as raised:
        jars.kafka_folder(ignore)
    assert "ProxyError" not in str(raised.value)


def test_without_the_extra_the_error_tells_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jgo.config", None)
    with pytest.raises(UsageError, match=r"pip install 'overspill\[local\]'"):
        jars.kafka_folder(ignore)


def test_a_cache_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(LocalKafkaError, match="XDG_CACHE_HOME"):
        jars.kafka_folder(ignore)
