"""While it is measured a server listens on this machine alone, whatever the user's own command says."""

from __future__ import annotations

import pytest

from tests.bench import FAKE, Bench


@pytest.mark.parametrize("own", [None, "0.0.0.0"])
def test_a_measured_server_listens_on_loopback_and_the_printed_command_where_the_user_says(
    bench: Bench, own: str | None
) -> None:
    words = bench.quick("--trials", "2", "--confirm-rounds", "2")
    if own is not None:
        for option in ("--model", "--binary"):
            del words[words.index(option) : words.index(option) + 2]
        words += ["--", str(FAKE), "-m", str(bench.model), "--host", own]
    assert bench.tuner(*words).code == 0
    for record in [*bench.records(), *bench.records("confirm")]:
        assert record.launched is not None
        assert record.command is not None
        hosts = [
            [argv[place + 1] for place, word in enumerate(argv) if word == "--host"]
            for argv in (record.launched.argv, record.command.argv)
        ]
        assert hosts == [["127.0.0.1"], [own or "127.0.0.1"]]
