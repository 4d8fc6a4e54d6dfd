"""A real SGLang on this machine's CPU: set up on demand, in an environment of its own.

`python tests/real_sglang/installed.py` sets it up and says where it is: about 290 MB of downloads, 2.3 GB on disk,
three minutes. Its HTTP server, scheduler and detokenizer are SGLang's own; compiled kernels and pictures have
stand-ins, and speculation and CUDA graphs do not exist there. REAL_SGLANG_VENV names another place than
`.venv-sglang`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

VERSION = "0.5.23"
HERE = Path(__file__).resolve().parent
PLACE = Path(os.environ.get("REAL_SGLANG_VENV") or HERE.parents[1] / ".venv-sglang")
ENVIRONMENT = {
    "PYTHONPATH": str(HERE / "stand_ins"),
    # Without it SGLang asks for another engine on a CPU.
    "SGLANG_USE_CPU_ENGINE": "1",
    "SGLANG_CPU_OMP_THREADS_BIND": "0",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}
"""What every launch needs here."""
FIXED = ("--device", "cpu", "--skip-server-warmup")


def interpreter() -> Path:
    """The environment's interpreter; set up at the first call, which takes minutes."""
    python = PLACE / "bin" / "python"
    done = PLACE / f"sglang-{VERSION}-is-complete"
    if not done.exists() or not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PLACE)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--no-deps", f"sglang=={VERSION}"], check=True)
        subprocess.run([*install, "--requirement", str(HERE / "requirements.txt")], check=True)
        done.touch()
    return python


def write_model(folder: Path) -> Path:
    """A tiny model in `folder`, which must not exist."""
    env = {**os.environ, **ENVIRONMENT}
    subprocess.run([str(interpreter()), str(HERE / "tiny_model.py"), str(folder)], check=True, env=env)
    return folder


if __name__ == "__main__":
    print(interpreter())
