"""What every engine adapter keeps, whatever its program: one class of tests, run over the fake and the real program.

A subclass in a `test_*` file names the adapter and says how its program is started; see `EngineContract`.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest

from tests.fake_engine.tiny_gguf import write_tiny_gguf
from tuner.domain.command import LaunchCommand
from tuner.domain.configuration import Configuration, Value
from tuner.domain.errors import EngineNotFound, MissingFile, UnknownFlag
from tuner.domain.facts import EngineFacts
from tuner.domain.measurement import RequestFailure, RequestTiming
from tuner.domain.quality import Reply
from tuner.domain.sampling import Sampling
from tuner.domain.space import SearchSpace
from tuner.domain.verdict import Outcome
from tuner.process.engine_process import EngineProcess
from tuner.process.ports import free_port, port_is_free
from tuner.study.protocols import Engine, RunningClient

PATIENCE_S = 60
TEXT = "".join(f"The {word} crossed the river on day {day}. " for day in range(40) for word in ("heron", "miller"))


@dataclass
class Running:
    """A server that is ready."""

    client: Any
    process: EngineProcess
    log_path: Path
    port: int
    marker: str

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def generate(
        self, prompt: str, *, reuse_prefix: bool = False, predict_tokens: int = 12, limit_s: float = 60.0
    ) -> RequestTiming | RequestFailure:
        answer: RequestTiming | RequestFailure = self.client.generate(
            prompt,
            predict_tokens=predict_tokens,
            reuse_prefix=reuse_prefix,
            first_token_s=PATIENCE_S,
            stall_s=PATIENCE_S,
            limit_s=limit_s,
            slot=0,
        )
        return answer

    def timing(self, prompt: str, **how: Any) -> RequestTiming:
        answer = self.generate(prompt, **how)
        assert isinstance(answer, RequestTiming), answer
        return answer


class EngineContract:
    """Subclass it, name it `Test...`, and set what is below."""

    engine: ClassVar[Engine]
    space: ClassVar[SearchSpace]
    """Has the context, the streams, and whatever the adapter must spell out."""
    values: ClassVar[dict[str, Value]]
    """A configuration of it: 2048 tokens of context a slot, 2 slots, no speculation."""
    fixed: ClassVar[tuple[str, ...]] = ()
    env: ClassVar[Mapping[str, str]] = {}
    layers = 2
    patience_s: ClassVar[float] = PATIENCE_S
    """How long a start may take."""
    unseen: ClassVar[Mapping[str, str]]
    """A variable that would change a launch without standing in its command."""

    @pytest.fixture(scope="class")
    @classmethod
    def binary(cls) -> Path:
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        path = tmp_path_factory.mktemp("model") / "tiny.gguf"
        return write_tiny_gguf(path, layers=cls.layers, embd=64, context=8192)

    @classmethod
    def size(cls, model: Path) -> int:
        """Bytes of the model's weights."""
        return model.stat().st_size

    @classmethod
    def broken_model(cls, model: Path, folder: Path) -> Path:  # noqa: ARG003 - a folder of files is copied
        """A model that cannot be loaded, in `folder`."""
        broken = folder / "broken.gguf"
        broken.write_bytes(b"GGML" + bytes(2000))
        return broken

    @pytest.fixture(scope="class")
    @classmethod
    def facts(cls, binary: Path) -> EngineFacts:
        return cls.engine.inspect(binary, arguments=cls.fixed, env=cls.env)

    @pytest.fixture(scope="class")
    @classmethod
    def command(cls, binary: Path, model: Path) -> LaunchCommand:
        configuration = Configuration(values=cls.values)
        return cls.engine.command(
            cls.space, configuration, binary=str(binary), model=str(model), fixed=cls.fixed, env=cls.env
        )

    @classmethod
    def start(cls, command: LaunchCommand, facts: EngineFacts, folder: Path) -> Running:
        """The process as a trial makes it, not yet entered."""
        port, marker = free_port(), f"contract-{os.getpid()}-{time.time_ns()}/0"
        launched = cls.engine.for_measurement(command, facts, port=port, alias="contract-alias")
        inherited, _ = cls.engine.clean_environment(os.environ)
        log = folder / "engine.log"
        process = EngineProcess(launched.argv, env={**inherited, **launched.env}, log_path=log, marker=marker)
        return Running(cls.engine.client(port), process, log, port, marker)

    @pytest.fixture(scope="class")
    @classmethod
    def running(
        cls, command: LaunchCommand, facts: EngineFacts, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[Running]:
        server = cls.start(command, facts, tmp_path_factory.mktemp("running"))
        client: RunningClient = server.client
        assert client.is_ready() is False, "nothing listens yet"
        with server.process:
            deadline = time.monotonic() + cls.patience_s
            while not client.is_ready():
                assert server.process.is_running(), server.log
                assert time.monotonic() < deadline, server.log
                time.sleep(0.05)
            yield server
        client.close()
        assert marked(server.marker) == []
        assert port_is_free(server.port)

    # ---- before anything runs --------------------------------------------------------------------------------------

    def test_inspect(self, facts: EngineFacts, binary: Path) -> None:
        assert facts.engine == self.engine.name
        assert facts.binary == str(binary)
        assert facts.version
        for parameter in self.space.parameters:
            for flag in (parameter.flag, parameter.off_flag):
                assert flag is None or facts.flags.knows(flag), flag

    def test_inspect_of_what_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(EngineNotFound):
            self.engine.inspect(tmp_path / "nothing", arguments=(), env={})
        with pytest.raises(EngineNotFound):
            self.engine.inspect(Path("/bin/true"), arguments=(), env={})

    def test_read_model(self, model: Path, tmp_path: Path) -> None:
        read = self.engine.read_model(model)
        assert (read.layers, read.trained_context, read.size_bytes) == (self.layers, 8192, self.size(model))
        with pytest.raises(MissingFile):
            self.engine.read_model(tmp_path / "nothing")

    def test_every_command_is_understood_again(
        self, command: LaunchCommand, facts: EngineFacts, binary: Path, model: Path
    ) -> None:
        searchable = {parameter.name: (parameter.flag, parameter.off_flag) for parameter in self.space.parameters}
        understood = self.engine.understand(command.argv[1:], facts.flags, searchable)
        assert understood.present == self.values
        assert understood.model == str(model)
        assert command.argv[0] == str(binary)

        baseline = self.engine.baseline_command(
            binary=str(binary), model=str(model), arguments=understood.arguments, env={"A": "b"}
        )
        assert baseline.env == {"A": "b"}
        assert self.engine.understand(baseline.argv[1:], facts.flags, searchable).present == self.values
        env, program, arguments = self.engine.split_command(["A=b", *baseline.argv])
        assert (env, program) == ({"A": "b"}, str(binary))
        assert arguments == baseline.argv[-len(arguments) :]
        assert self.engine.understand(arguments, facts.flags, searchable).present == self.values

        launched = self.engine.for_measurement(baseline, facts, port=4711, alias="x-1")
        assert launched.argv[0] == str(binary)
        assert launched.argv.count("4711") == launched.argv.count("x-1") == 1
        assert launched.env.items() >= {"A": "b"}.items()
        again = self.engine.understand(launched.argv[1:], facts.flags, searchable)
        assert again.present == self.values, "a measurement changes nothing that is tuned"

    def test_an_unknown_flag_is_refused(self, facts: EngineFacts) -> None:
        with pytest.raises(UnknownFlag, match="--no-such-flag"):
            self.engine.understand(["--no-such-flag"], facts.flags, {})

    # ---- a running server ------------------------------------------------------------------------------------------

    def test_it_is_the_one_that_was_started(self, running: Running) -> None:
        assert running.client.alias() in (None, "contract-alias")

    def test_it_runs_with_what_was_asked(self, running: Running) -> None:
        actual = self.engine.actual_settings(running.client, running.log)
        assert (actual.context_per_slot, actual.slots, actual.speculation) == (2048, 2, False)
        assert actual.buffers_mib
        signs = self.engine.degradations(self.space, Configuration(values=self.values), actual, running.log)
        assert signs == []

    def test_texts_are_cut_to_tokens(self, running: Running) -> None:
        cut = running.client.truncate(TEXT, 100)
        assert TEXT.startswith(cut)
        assert 0 < len(cut) < len(TEXT)
        assert running.client.truncate("short", 100) == "short"
        count = running.timing(cut, predict_tokens=2).prompt_tokens
        assert 95 <= count <= 105

    def test_a_message_is_rendered_with_the_answers_opening(self, running: Running) -> None:
        prompt = running.client.render("What is the heron?", "The heron")
        assert "What is the heron?" in prompt
        assert prompt.endswith("The heron")

    def test_a_whole_chat_is_rendered(self, running: Running) -> None:
        said = ["Be brief.", "What is the heron?", "A bird.", "And the miller?"]
        roles = ["system", "user", "assistant", "user"]
        chat = [{"role": role, "content": text} for role, text in zip(roles, said, strict=True)]
        prompt = running.client.render(chat, "The miller")
        places = [prompt.index(text) for text in said]
        assert places == sorted(places)
        assert prompt.endswith("The miller")

    def test_a_user_may_sample(self, running: Running) -> None:
        sampling = Sampling(temperature=0.8, top_p=0.9, top_k=20, min_p=0.01, presence_penalty=0.1, seed=3)
        timing = running.client.generate(
            "Sampled. " + TEXT[:200], predict_tokens=12, reuse_prefix=False, first_token_s=PATIENCE_S,
            stall_s=PATIENCE_S, limit_s=60.0, slot=0, sampling=sampling,
        )  # fmt: skip
        assert isinstance(timing, RequestTiming), timing
        assert timing.completion_tokens == 12

    def test_the_arrival_of_every_piece_is_timed(self, running: Running) -> None:
        timing = running.timing("Pieces. " + TEXT[:200], predict_tokens=24)
        # A character of several tokens arrives as one piece.
        assert 1 <= len(timing.gaps_ms) <= 23
        assert all(gap >= 0 for gap in timing.gaps_ms)
        assert sum(timing.gaps_ms) <= timing.total_ms - timing.ttft_ms + 1
        assert timing.finish_reason

    def test_a_cold_request_computes_all_of_its_prompt(self, running: Running) -> None:
        prompt = running.client.truncate("Cold. " + TEXT, 200)
        for _ in range(2):
            timing = running.timing(prompt)
            assert timing.cached_tokens == 0
            assert timing.completion_tokens == 12, "an end of text does not end it"
            assert timing.prefill_ms is not None
            assert timing.prefill_ms > 0
            assert timing.prefill_tps is not None
            assert timing.decode_tps is not None
            assert 0 < timing.ttft_ms <= timing.total_ms
            assert timing.text
            assert timing.draft_tokens in (None, 0)

    def test_a_shared_prefix_comes_from_the_cache(self, running: Running) -> None:
        prefix = running.client.truncate("Warm. " + TEXT, 300)
        cold = running.timing(prefix + " One.")
        warm = running.timing(prefix + " Two, other.", reuse_prefix=True)
        assert cold.cached_tokens == 0
        assert warm.cached_tokens is not None
        assert warm.cached_tokens > 250
        assert warm.prompt_tokens >= 300

    def test_a_short_answer_tells_how_probable_its_first_token_was(self, running: Running) -> None:
        prefix = running.client.truncate("Short. " + TEXT, 300)
        replies = [
            running.client.answer(prefix + ending, predict_tokens=4, top_tokens=10, limit_s=PATIENCE_S, slot=0)
            for ending in (" The heron", " The heron", " The miller")
        ]
        assert all(isinstance(reply, Reply) for reply in replies), replies
        first, again, other = replies
        assert first.text
        assert first.text == again.text, "it is greedy"
        assert first.total_ms > 0
        assert other.cached_tokens is None or other.cached_tokens > 250
        assert other.prompt_tokens is None or other.prompt_tokens > 290
        if first.first_token is None:
            return  # An engine that cannot tell.
        assert len(first.first_token) == 10
        assert 0.1 < sum(map(math.exp, first.first_token.values())) <= 1.0001
        assert first.first_token == pytest.approx(again.first_token, abs=0.05)

    def test_a_short_answer_that_cannot_be_given_is_a_failure(self, running: Running) -> None:
        long = running.client.answer(TEXT * 12, predict_tokens=4, top_tokens=10, limit_s=PATIENCE_S)
        assert isinstance(long, RequestFailure)
        assert long.kind == "context_exceeded"
        late = running.client.answer(TEXT[:1500], predict_tokens=500, top_tokens=10, limit_s=0.01)
        assert isinstance(late, RequestFailure)
        assert late.kind == "no_first_token"

    def test_what_is_hopelessly_slow_is_cut_off(self, running: Running) -> None:
        timing = running.timing("Endless. " + TEXT[:200], predict_tokens=1000, limit_s=0.0)
        assert timing.finish_reason == "cut off"
        assert 2 <= timing.completion_tokens < 1000
        assert timing.decode_tps is not None
        assert running.timing("And then. " + TEXT[:200]).completion_tokens == 12, "the slot is free again"

    def test_a_prompt_that_is_too_long_is_told_as_that(self, running: Running) -> None:
        answer = running.generate(TEXT * 12)
        assert isinstance(answer, RequestFailure)
        assert answer.kind == "context_exceeded"
        assert answer.detail
        assert running.process.is_running()

    # ---- its end ---------------------------------------------------------------------------------------------------

    def test_a_broken_model_is_explained(
        self, command: LaunchCommand, facts: EngineFacts, model: Path, tmp_path: Path
    ) -> None:
        broken = self.broken_model(model, tmp_path)
        words = [str(broken) if word == str(model) else word for word in command.argv]
        server = self.start(LaunchCommand(argv=tuple(words), env=command.env), facts, tmp_path)
        with server.process:
            deadline = time.monotonic() + self.patience_s
            while server.process.is_running() and time.monotonic() < deadline:
                assert server.client.is_ready() is False
                time.sleep(0.02)
            explanation = self.engine.explain_exit(server.log, server.process.returncode)
        assert server.process.returncode not in (None, 0)
        assert explanation.outcome in (Outcome.CRASHED, Outcome.INVALID)
        assert explanation.reason
        assert "exit code" not in explanation.reason, "the log says more than its number"
        assert marked(server.marker) == []

    @pytest.mark.parametrize("returncode", [None, 0, 1, 137, -4, -9, -11])
    def test_any_end_has_a_reason(self, returncode: int | None) -> None:
        for log in ("", "\x00\xff", "half a li", "{" * 5000):
            assert self.engine.explain_exit(log, returncode).reason

    def test_stopping_leaves_nothing(self, command: LaunchCommand, facts: EngineFacts, tmp_path: Path) -> None:
        """Also in the middle of its start, and of an answer."""
        server = self.start(command, facts, tmp_path)
        with server.process:
            pass
        assert marked(server.marker) == []
        assert port_is_free(server.port)
        assert server.client.is_ready() is False
        assert isinstance(server.generate("Anyone there?"), RequestFailure)
        gone = server.client.answer("Anyone there?", predict_tokens=4, top_tokens=10, limit_s=PATIENCE_S)
        assert isinstance(gone, RequestFailure)
        assert gone.kind == "connection_lost"
        server.client.close()

    def test_variables_that_set_flags_unseen_are_left_out(self) -> None:
        kept, hidden = self.engine.clean_environment({"PATH": "/bin", **self.unseen})
        assert kept == {"PATH": "/bin"}
        assert hidden == list(self.unseen)


def marked(marker: str) -> list[int]:
    """The living processes that carry the marker."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("TUNER_MARKER") == marker and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found
