"""Credentials are found, labelled and never printed."""

from converters.ir import Meta, Session, Step, Text, ToolCall, ToolResult, Turn
from converters.opening import Memory
from dcb.checking.secrets import KINDS, Labels, find, in_lines
from tests.pack import dcb, pack
from tests.paths import needs_shared

# Put together here, so that no scanner takes this file for a leak.
FAKE = {
    "aws-access-key": "AK" + "IA" + "IOSFODNN7EXAMPLE",
    "github-token": "gh" + "p_" + "0" * 36,
    "gitlab-token": "gl" + "pat-" + "a" * 20,
    "anthropic-key": "sk" + "-ant-" + "api03-" + "A" * 40,
    "openai-key": "sk" + "-proj-" + "B" * 40,
    "google-api-key": "AI" + "za" + "c" * 35,
    "slack-token": "xo" + "xb-" + "1" * 12,
    "stripe-key": "sk" + "_live_" + "2" * 20,
    "npm-token": "np" + "m_" + "d" * 36,
    "pypi-token": "py" + "pi-AgE" + "e" * 60,
    "huggingface-token": "hf" + "_" + "f" * 32,
    "json-web-token": "ey" + "J" + "a" * 12 + ".eyJ" + "b" * 12 + "." + "c" * 12,
    "private-key": "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIE",
    "url-password": "https://user:" + "pass1234" + "@host.example/",
    "password": "password=" + "hunter2hunter2",
}


def test_each_class_is_found() -> None:
    assert set(FAKE) == set(KINDS)
    for kind, text in FAKE.items():
        assert [secret.kind for secret in find(f"see {text} there")] == [kind], kind


def test_names_of_secrets_are_no_secrets() -> None:
    for text in (
        "password: ${DB_PASSWORD}", "api_key = os.environ['KEY']", "password: ********",
        "token_estimate: 12345678", "secret: your-secret-here", "the password is long",
        "http://localhost:8080/a@b", "skill-ant-colony", "AKIAtooshort",
    ):  # fmt: skip
        assert find(text) == [], text


def test_the_same_value_has_the_same_label() -> None:
    labels = Labels()
    one, two = find(FAKE["password"] + "\n" + "passwd: other-word-9")
    assert [labels.of(one), labels.of(two), labels.of(one)] == [
        "password-1", "password-2", "password-1",
    ]  # fmt: skip


def test_json_escapes_are_undone() -> None:
    line = (
        b'{"text": "a \\"password\\": \\"hunter2hunter2\\" \\u0041KIA' + b"IOSFODNN7EXAMPLE" + b'"}'
    )
    found = list(in_lines(Memory(b"first\n" + line, "a.jsonl"), Labels()))
    assert [(p.line, p.message) for p in found] == [
        (2, "password (password-1)"),
        (2, "aws-access-key (aws-access-key-1)"),
    ]


def test_long_lines_stay_linear() -> None:
    for unit in ("eyJ", "a", "sk-", "://", "password", "-----BEGIN ", "A" * 20 + ".", ":"):
        find(unit * 60_000)


@needs_shared
def test_the_hostile_case() -> None:
    path = str(pack() / "jsonl" / "secrets.jsonl")
    for form in ("text", "json", "github", "sarif", "junit"):
        done = dcb("check", "--secrets", "--format", form, path)
        assert done.code == 1
        for kind in (
            "aws-access-key",
            "github-token",
            "anthropic-key",
            "private-key",
            "url-password",
        ):
            assert f"{kind}-1" in done.out
        assert "password-1" in done.out
        for value in ("IOSFODNN7", "0" * 12, "A" * 12, "MIIE", "hunter2", "pass1234"):
            assert value not in done.out + done.err, value
    assert (
        f"{path}:1: secret: aws-access-key (aws-access-key-1)"
        in dcb("check", "--secrets", path).out
    )


def test_sessions_are_searched_where_the_file_is_no_text() -> None:
    from dcb.checking.secrets import _texts

    session = Session(
        meta=Meta("s"),
        provider="t",
        turns=[
            Turn(
                "prompt",
                steps=[
                    Step(
                        [Text("answer")],
                        [ToolCall("c", "run", "arguments")],
                        [ToolResult("c", [Text("result")])],
                    )
                ],
            )
        ],
    )
    assert [text for _, text in _texts(session)] == ["prompt", "answer", "arguments", "result"]
