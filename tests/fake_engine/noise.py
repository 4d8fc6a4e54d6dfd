"""What makes the same request take another time: chance, other launches, the hour of the day.

FAKE_NOISE         standard deviation of the logarithm of a request's time; default 0.01
FAKE_LAUNCH_NOISE  the same from launch to launch: all requests of a launch share it; default 0
FAKE_OUTLIERS      share of the requests that take half as long again; default 0
FAKE_DRIFT         SHARE@SECONDS@SINCE: the machine becomes slower by SHARE, steadily, in the SECONDS after SINCE
                   (seconds since the epoch), and stays so
FAKE_SEED          changes all of it; with one seed and alias, the n-th request always has the same. The study's
                   part of the tuner's aliases does not count then, so that a whole study can be had again
"""

from __future__ import annotations

import math
import os
import random
import re
import time
from dataclasses import dataclass

OUTLIER = 1.5


@dataclass(frozen=True)
class Noise:
    """The noise of one launch."""

    seed: str
    request: float = 0.0
    launch: float = 0.0
    outliers: float = 0.0
    drift: tuple[float, float, float] = (0.0, 1.0, 0.0)

    @classmethod
    def read(cls, alias: str) -> Noise:
        """The noise that the environment asks for, for a launch under this alias."""
        seed = os.environ.get("FAKE_SEED", "")
        if seed:
            alias = re.sub(r"^tuner-[0-9a-f]{12}-", "", alias)
        share, seconds, since = (float(part) for part in os.environ.get("FAKE_DRIFT", "0@1@0").split("@"))
        return cls(
            f"{seed}/{alias}",
            request=float(os.environ.get("FAKE_NOISE", 0.01)),
            launch=float(os.environ.get("FAKE_LAUNCH_NOISE", 0.0)),
            outliers=float(os.environ.get("FAKE_OUTLIERS", 0.0)),
            drift=(share, seconds, since),
        )

    def of_request(self, number: int) -> float:
        """How many times longer than the rig says the n-th request of the launch takes, counted from 1."""
        rng = random.Random(f"{self.seed}/{number}")
        longer = math.exp(rng.gauss(0, self.request) + random.Random(self.seed).gauss(0, self.launch))
        if rng.random() < self.outliers:
            longer *= OUTLIER
        share, seconds, since = self.drift
        return longer * (1 + share * min(1.0, max(0.0, (time.time() - since) / seconds)))
