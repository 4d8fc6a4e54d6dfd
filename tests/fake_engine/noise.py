"""What makes the same request take another time: chance, other launches, the hour of the day.

FAKE_NOISE         standard deviation of the logarithm of a request's time; default: what the rig has, or 0.01.
                   Without any, launches do not differ by the rig's luck either
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

from rig import Rig

OUTLIER = 1.5


@dataclass(frozen=True)
class Noise:
    """The noise of one launch."""

    seed: str
    request: float = 0.0
    launch: float = 0.0
    outliers: float = 0.0
    drift: tuple[float, float, float] = (0.0, 1.0, 0.0)
    luck: float = 1.0
    """How many times faster than the rig says the whole launch is."""

    @classmethod
    def read(cls, alias: str, rig: Rig) -> Noise:
        """The noise that the environment and the rig ask for, for a launch under this alias."""
        seed = os.environ.get("FAKE_SEED", "")
        if seed:
            alias = re.sub(r"^tuner-[0-9a-f]{12}-", "", alias)
        share, seconds, since = (float(part) for part in os.environ.get("FAKE_DRIFT", "0@1@0").split("@"))
        request = float(os.environ.get("FAKE_NOISE") or rig.noise.get("sigma", 0.01))
        return cls(
            f"{seed}/{alias}",
            request=request,
            launch=float(os.environ.get("FAKE_LAUNCH_NOISE", 0.0)),
            outliers=float(os.environ.get("FAKE_OUTLIERS", 0.0)),
            drift=(share, seconds, since),
            luck=rig.luck(f"{seed}/{alias}") if request else 1.0,
        )

    def of_request(self, number: int) -> float:
        """How many times longer than the rig says the n-th request of the launch takes, counted from 1."""
        rng = random.Random(f"{self.seed}/{number}")
        longer = math.exp(rng.gauss(0, self.request) + random.Random(self.seed).gauss(0, self.launch)) / self.luck
        if rng.random() < self.outliers:
            longer *= OUTLIER
        share, seconds, since = self.drift
        return longer * (1 + share * min(1.0, max(0.0, (time.time() - since) / seconds)))
