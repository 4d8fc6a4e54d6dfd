"""How llama-server's flags are written, beside what its help says."""

from tuner.engines.command_words import Spelling

SPELLING = Spelling(
    program="llama-server",
    renamed={
        "--draft": "--spec-draft-n-max",
        "--draft-n": "--spec-draft-n-max",
        "--draft-max": "--spec-draft-n-max",
        "--draft-min": "--spec-draft-n-min",
        "--draft-n-min": "--spec-draft-n-min",
        "--draft-p-min": "--spec-draft-p-min",
        "--model-draft": "--spec-draft-model",
        "--gpu-layers-draft": "--spec-draft-ngl",
        "--device-draft": "--spec-draft-device",
    },
)
