"""What must not leave."""

from __future__ import annotations

import pytest

from functions.chat.redact import MASK, Redactor


@pytest.mark.parametrize(
    "secret",
    [
        "Authorization: Bearer abcdef0123456789xyz",
        "postgres://svc:hunter22@db:5432/x",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "xoxb-123456789012-abcdefgh",
        "ghp_0123456789012345678901234567890123456",
        "AKIAABCDEFGHIJKLMNOP",
        "https://hooks.slack.com/services/T0/B0/xyz",
        "password=hunter22",
        "api_key: 'abcd1234efgh'",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_credentials_are_masked_wherever_they_stand(secret: str) -> None:
    text = Redactor().text(f"seen {secret} in a label")
    assert MASK in text
    for part in (
        "abcdef0123456789xyz",
        "hunter22",
        "c2lnbmF0dXJl",
        "abcdefgh",
        "0123456789012345678901234567890123456",
        "ABCDEFGHIJKLMNOP",
        "T0/B0/xyz",
        "abcd1234efgh",
        "MIIB",
    ):
        assert part not in text


@pytest.mark.parametrize(
    "text",
    [
        "GPU-5fd4b087-86f3-7a43-b711-4771313afc50 on gpu-node-1",
        "`sum by (Hostname) (rate(DCGM_FI_DEV_XID_ERRORS[5m])) > 0`",
        "vllm:time_to_first_token_seconds of Deployment/token-router",
        "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.0-4.4.0-ubuntu22.04",
        "telemetry-gap/went-silent: DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    ],
)
def test_what_an_audit_is_about_stays_readable(text: str) -> None:
    assert Redactor().text(text) == text


def test_the_policy_masks_too_at_any_depth() -> None:
    redactor = Redactor([r"user-\d+", ""])
    assert redactor.json({"a": ["user-17", {"b": "x user-2"}], "n": 1}) == {"a": [MASK, {"b": f"x {MASK}"}], "n": 1}


def test_a_broken_mask_is_named() -> None:
    with pytest.raises(ValueError, match="masks"):
        Redactor(["("])
