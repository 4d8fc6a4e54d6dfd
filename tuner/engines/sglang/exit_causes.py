"""The ways in which SGLang is known to fail, and what each means.

The texts are those of SGLang's own code, of Python's argparse, and of torch. The most specific row stands first: a
failure in a scheduler is followed by what the launcher says of it. In the texts `{on_device}` stands for the device
that the log names near by, if it does.

Of `--mem-fraction-static` one failure wants more and another less: the share is divided into weights and KV pool, and
what is left of the card is all that computing and CUDA graphs have.
"""

from __future__ import annotations

from tuner.domain.memory import HOST
from tuner.domain.verdict import Move, Outcome
from tuner.engines.cause import Cause, by_signal

FRACTION = "--mem-fraction-static"
_MORE = (Move(flag=FRACTION, larger=True),)
_LESS = (Move(flag=FRACTION, larger=False),)
_OOM, _CRASH, _REFUSED = Outcome.OUT_OF_MEMORY, Outcome.CRASHED, Outcome.INVALID
_NO_MEMORY = (
    r"OutOfMemoryError|(?:CUDA|HIP|ROCm|XPU)(?: error:)? out of memory|hipErrorOutOfMemory|AcceleratorError: .*memory"
)

CAUSES: tuple[Cause, ...] = (
    # What argparse refuses before anything is loaded.
    Cause(
        r"error: unrecognized arguments: (?P<flag>.+)",
        _REFUSED,
        "the engine refuses {flag}: this build does not know it",
        "use the spelling that this build's --help lists, or leave the flag out",
    ),
    Cause(
        r"error: argument (?P<flag>--[\w-]+)(?:/\S+)*: invalid choice: '?(?P<value>[^ ']+)'?",
        _REFUSED,
        "the engine refuses {value} for {flag}",
        "use a value that this build's --help lists for {flag}",
    ),
    Cause(
        r"error: ambiguous option: (?P<flag>\S+) could match (?P<names>.+)",
        _REFUSED,
        "the engine refuses {flag}: it could stand for {names}",
        "write the whole name",
    ),
    Cause(
        r"error: argument (?P<flag>--[\w-]+)(?:/\S+)*: (?P<why>.+)",
        _REFUSED,
        "the engine refuses the value given to {flag}: {why}",
    ),
    Cause(r"error: (?P<why>the following arguments are required: .+)", _REFUSED, "the engine refuses to start: {why}"),
    # A share of memory that is too small, in words that name its own remedy.
    Cause(
        r"Not enough memory\. Please try to increase --mem-fraction-static\.?(?:.*mem_fraction_static=(?P<at>[\d.]+))?",
        _OOM,
        "the weights leave no room for a KV cache in their share of the memory",
        "a larger --mem-fraction-static",
        moves=_MORE,
    ),
    Cause(
        r"leave no (?:GPU )?memory for the KV cache under --mem-fraction-static=(?P<at>[\d.]+)\. "
        r".*above (?P<least>[\d.]+)",
        _OOM,
        "the weights leave no room for a KV cache in their share of the memory, which must be above {least}",
        "a larger --mem-fraction-static",
        moves=_MORE,
    ),
    Cause(
        r"(?P<which>Prefill|Decode) out of memory\. Try to lower your batch size",
        _OOM,
        "the KV pool was used up while {which}",
        "fewer --max-running-requests, or a larger pool",
        moves=(*_MORE, Move(flag="--max-running-requests", larger=False)),
    ),
    # A share that is too large: what is left does not suffice for computing.
    Cause(
        rf"Capture (?:prefill |decode )?cuda graph failed: .*(?:{_NO_MEMORY}|out of memory)",
        _OOM,
        "the memory{on_device} that the static share leaves does not suffice for the CUDA graphs",
        "a smaller --mem-fraction-static, or graphs for smaller batches",
        moves=(
            *_LESS,
            Move(flag="--cuda-graph-max-bs-decode", larger=False),
            Move(flag="--cuda-graph-max-bs", larger=False),
        ),
    ),
    Cause(
        rf"{_NO_MEMORY}",
        _OOM,
        "the memory{on_device} that the static share leaves does not suffice for computing",
        "a smaller --mem-fraction-static, or smaller chunks of the prompt",
        moves=(*_LESS, Move(flag="--chunked-prefill-size", larger=False)),
    ),
    Cause(
        r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)",
        _OOM,
        "host memory ran out",
        "a smaller --mem-fraction-static or --max-total-tokens",
        device=HOST,
        moves=(*_LESS, Move(flag="--max-total-tokens", larger=False)),
    ),
    Cause(
        r"MemoryError|Cannot allocate memory|unable to mmap|std::bad_alloc",
        _OOM,
        "host memory ran out",
        "less in host memory: a smaller pool, no hierarchical cache",
        device=HOST,
    ),
    Cause(
        r"[Rr]ank (?P<rank>\d+) scheduler died during initialization \(exit code: -9\)"
        r"|Subprocess scheduler\S* \(pid=\d+\) crashed with exit code -9",
        _OOM,
        "a scheduler was killed from outside, most likely by the kernel because host memory ran out",
        "less in host memory: a smaller pool, no hierarchical cache; `dmesg` says whether it was the kernel",
        device=HOST,
    ),
    # What runs, and then does not.
    Cause(
        r"(?P<who>\w+) watchdog timeout \((?!.*soft=True)(?:self\.)?watchdog_timeout=(?P<limit>[\d.]+)",
        Outcome.STALLED,
        "the engine's own watchdog ended it: one step took longer than {limit} s",
        "smaller chunks of the prompt, or another attention backend",
    ),
    Cause(
        r"watchdog timeout(?!.*soft=True)",
        Outcome.STALLED,
        "the engine's own watchdog ended it: one step took too long",
        "smaller chunks of the prompt, or another attention backend",
    ),
    Cause(
        r"Capture (?:prefill |decode )?cuda graph failed: (?P<why>.+)",
        _CRASH,
        "the CUDA graphs cannot be captured: {why}",
        "another attention backend, or no graphs",
    ),
    Cause(
        r"(?:NCCL|RCCL) error|nccl\w*Error",
        _CRASH,
        "the cards could not talk to each other (NCCL)",
        "NCCL_P2P_DISABLE=1, or one card",
    ),
    Cause(
        r"(?:CUDA|HIP) error: (?P<why>an illegal memory access[^.]*|device-side assert[^.]*|[\w ]+)",
        _CRASH,
        "a kernel failed: {why}",
        "another attention backend or KV cache type",
    ),
    Cause(
        r"(?:address \('[^']+', (?P<port>\d+)\): .*|^(?!.*address \().*)[Aa]ddress already in use",
        _CRASH,
        "the port {port} is in use: SGLang keeps running and never answers",
        "stop what listens there",
    ),
    Cause(
        r"greater than the derived context_length \((?P<trained>\d+)\)",
        _REFUSED,
        "the engine refuses the context: the model was trained for {trained} tokens",
        "a smaller --context-length",
    ),
    Cause(
        r"does not appear to have a file named (?P<file>\S+)|is not a valid JSON file|Unrecognized model in"
        r"|(?:Error no file|No such file).*(?:safetensors|config\.json)|SafetensorError|Cannot find any model weights"
        r"|Can't load tokenizer|is not a local folder and is not a valid model identifier",
        _CRASH,
        "the model's folder cannot be read",
        "download the whole model again",
    ),
    Cause(
        r"(?:ModuleNotFoundError|ImportError): (?P<why>.+)",
        _CRASH,
        "SGLang's environment lacks something: {why}",
        "install what is missing there",
    ),
    # The last line of a traceback: a combination that the engine refuses, or an error nobody foresaw.
    Cause(r"^(?:ValueError|AssertionError|NotImplementedError): (?P<why>.+)", _REFUSED, "the engine refuses it: {why}"),
    Cause(r"^(?P<kind>[A-Za-z_][\w.]*(?:Error|Exception)): (?P<why>.+)", _CRASH, "the engine failed: {why} ({kind})"),
    Cause(
        r"scheduler died during initialization \(exit code: (?P<code>-?\d+)\)"
        r"|Subprocess \S+ \(pid=\d+\) crashed with exit code (?P<later>-?\d+)",
        _CRASH,
        "a scheduler died with exit code {code}{later} and said nothing",
    ),
    Cause(
        r"Received sigquit from a child process|SIGQUIT received|Scheduler hit an exception",
        _CRASH,
        "a scheduler failed and said nothing",
    ),
)

SIGNALS = by_signal(
    {
        "SIGKILL": Cause(
            "",
            _OOM,
            "killed from outside without a word in the log, most likely by the kernel because host memory ran out",
            "less in host memory; `dmesg` says whether it was the kernel",
            device=HOST,
        ),
        "SIGSEGV": Cause("", _CRASH, "the engine crashed (segmentation fault)"),
        "SIGBUS": Cause("", _CRASH, "the engine crashed (bus error): shared memory may be too small"),
        "SIGABRT": Cause("", _CRASH, "the engine aborted"),
        "SIGILL": Cause("", _CRASH, "the engine is built for other CPU features than this machine has"),
        "SIGFPE": Cause("", _CRASH, "the engine crashed (arithmetic error)"),
        "SIGTERM": Cause("", _CRASH, "stopped from outside (SIGTERM)"),
        "SIGINT": Cause("", _CRASH, "stopped from outside (SIGINT)"),
        "SIGHUP": Cause("", _CRASH, "stopped from outside (SIGHUP)"),
    }
)
"""What a signal means where the log says nothing. A launcher that ends its own tree dies of SIGKILL as well, so that
the log is asked first."""
