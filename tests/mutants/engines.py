"""Rules of backends (`executors/backends/`)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

HTTP = "executors/backends/http.py"
DIALECT = "executors/backends/openai_dialect.py"

MUTANTS = (
    Mutant(
        "redirects are followed",
        "servers that redirect",
        HTTP,
        "allow_redirects=False",
        "allow_redirects=True",
        "tests/unit/test_backend_openai.py::test_redirects_are_not_followed",
    ),
    Mutant(
        "an answer of any size is read",
        "servers that answer 200 MB",
        HTTP,
        "            if size > bytes_max:",
        "            if size < 0:",
        "tests/unit/test_backend_openai.py::test_of_a_huge_answer_only_what_may_be_is_read",
    ),
    Mutant(
        "connections are kept",
        "servers that close after an answer",
        HTTP,
        "force_close=True",
        "force_close=False",
        "tests/unit/test_backend_openai.py",
    ),
    Mutant(
        "a traceback of a server travels",
        "backends that answer 500",
        "executors/backends/http_errors.py",
        '    return "" if "Traceback" in said else said',
        "    return said",
        "tests/unit/test_http_errors.py::test_a_servers_words_travel_only_from_json",
    ),
    Mutant(
        "an answer by another model is taken",
        "servers that answer for another model",
        DIALECT,
        "    if answered is None or answered in (asked, canonical):",
        "    if answered != asked + asked:",
        "tests/unit/test_openai_dialect.py::test_an_answer_of_another_model_is_seen",
    ),
    Mutant(
        "an adapter that was not asked for is not switched off",
        "servers that apply all adapters",
        DIALECT,
        "float(name == call.adapter)",
        "1.0",
        "tests/unit/test_backend_openai.py::test_each_adapter_of_a_real_server_is_applied_to_whom_it_was_named_for",
    ),
    Mutant(
        "urgent work is sent as the least urgent",
        "servers with another order",
        DIALECT,
        '        body["priority"] = rank if order == "lower_first" else len(_RANKS) - 1 - rank',
        '        body["priority"] = rank',
        "tests/unit/test_openai_dialect.py::test_urgent_work_comes_first_in_either_direction",
    ),
    Mutant(
        "an answer that broke off is a result",
        "servers that cut their answer",
        "executors/backends/openai_stream.py",
        "    if not all(ended):",
        "    if not ended:",
        "tests/unit/test_backend_openai.py::test_each_fault_is_one_record_of_the_right_category_and_frees_its_slot",
    ),
    Mutant(
        "a device that answers nonsense takes work",
        "devices that lie",
        "executors/backends/golden.py",
        "    if error <= error_max:",
        "    if error >= 0:",
        "tests/unit/test_backend_onnx.py::test_a_model_that_was_corrupted_is_refused_by_its_golden_error",
    ),
    Mutant(
        "a model falls back to the CPU in silence",
        "devices that lie",
        "executors/backends/onnx_session.py",
        '"session.disable_cpu_ep_fallback", "1"',
        '"session.disable_cpu_ep_fallback", "0"',
        "tests/unit/test_backend_onnx.py::test_a_device_that_is_not_there_is_refused_and_nothing_falls_back_to_the_cpu",
    ),
)
