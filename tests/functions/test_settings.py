"""The environment is read once, and what is wrong with it is named without its value."""

from __future__ import annotations

from pathlib import Path

import pytest

from functions.settings import Settings, SettingsError, policy_from, read_policy


def test_nothing_set_gives_defaults_on_loopback() -> None:
    settings = Settings.read({})
    assert settings.cluster == "default"
    assert settings.address == ("127.0.0.1", 8080)
    assert settings.redis_url is None


def test_knative_sets_the_port_and_all_interfaces() -> None:
    assert Settings.read({"PORT": "9000"}).address == ("0.0.0.0", 9000)


def test_listen_wins_over_the_port() -> None:
    assert Settings.read({"PORT": "9000", "TELLTALE_LISTEN": "[::1]:81"}).address == ("::1", 81)


def test_a_secret_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    settings = Settings.read({"TELLTALE_TOKEN_FILE": str(tmp_path / "token")})
    assert settings.token is not None
    assert settings.token.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(settings)


def test_a_secret_in_both_places_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="TELLTALE_TOKEN and TELLTALE_TOKEN_FILE"):
        Settings.read({"TELLTALE_TOKEN": "a", "TELLTALE_TOKEN_FILE": str(tmp_path / "b")})


def test_a_secret_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="TELLTALE_TOKEN_FILE"):
        Settings.read({"TELLTALE_TOKEN_FILE": str(tmp_path / "none")})


@pytest.mark.parametrize(
    ("variable", "value"), [("TELLTALE_SWEEP", "soon"), ("TELLTALE_SETTLE", "-1"), ("TELLTALE_CLUSTER", "a b"), ("PORT", "http")]
)
def test_a_wrong_value_names_its_variable(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=variable):
        Settings.read({variable: value})


def test_an_address_without_a_port_is_refused() -> None:
    with pytest.raises(SettingsError, match="TELLTALE_LISTEN"):
        _ = Settings.read({"TELLTALE_LISTEN": "localhost"}).address


def test_a_policy_file_overrides_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("renames: {catalogue: false}\nsignals: {required: [gpu.temperature]}\n")
    policy = read_policy(path)
    assert not policy.renames.catalogue
    assert policy.renames.min_confidence == 0.8
    assert policy.signals.required == ("gpu.temperature",)


@pytest.mark.parametrize(
    ("document", "key"),
    [
        ({"renames": {"catalog": False}}, "renames.catalog"),
        ({"renames": {"min_confidence": 2}}, "renames.min_confidence"),
        ({"unknown": 1}, "unknown"),
        ([1], "the file"),
        ("text", "the file"),
    ],
)
def test_a_wrong_key_of_the_policy_is_named(document: object, key: str) -> None:
    with pytest.raises(SettingsError, match=f"policy p.yaml: {key}"):
        policy_from(document, "p.yaml")


def test_a_broken_policy_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("a: [")
    with pytest.raises(SettingsError, match=r"policy\.yaml"):
        read_policy(path)


def test_headers_for_prometheus_are_read_from_lines_or_semicolons_and_files(tmp_path: Path) -> None:
    wanted = {"X-Scope-OrgID": "a|b", "X-Key": "k: v"}
    assert Settings.read({"TELLTALE_PROMETHEUS_HEADERS": "X-Scope-OrgID: a|b; X-Key: k: v"}).metric_headers == wanted
    (tmp_path / "headers").write_text("X-Scope-OrgID: a|b\n\nX-Key: k: v\n")
    settings = Settings.read({"TELLTALE_PROMETHEUS_HEADERS_FILE": str(tmp_path / "headers")})
    assert settings.metric_headers == wanted
    assert "a|b" not in repr(settings)
    assert Settings.read({}).metric_headers == {}


@pytest.mark.parametrize("text", ["s3cret", "X Y: s3cret", ": s3cret", "X: a\x00s3cret"])
def test_a_header_that_is_none_is_refused_without_its_value(text: str) -> None:
    with pytest.raises(SettingsError, match="TELLTALE_PROMETHEUS_HEADERS: header 1") as caught:
        _ = Settings.read({"TELLTALE_PROMETHEUS_HEADERS": text}).metric_headers
    assert "s3cret" not in str(caught.value)
