"""The few figures by which a person knows a configuration: one prefill, one decode, context, memory, quality."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.domain.measurement import Measurement
from tuner.domain.profile import Profile
from tuner.domain.record import TrialRecord
from tuner.domain.workload import Cell, Workload
from tuner.report.quality import NOISE_NATS, quality_json
from tuner.report.requests_told import acceptance_by_content, content_name
from tuner.report.tables import decode_by_content, prefill_by_depth


def worst_nats(measurement: Measurement) -> float | None:
    """How far one launch's answers are from the baseline's, the worse of the two places; None where not checked."""
    cost = measurement.quality.cost if measurement.quality is not None else None
    known = [cost.alone.kl, cost.deep.kl] if cost is not None else []
    return max((nats for nats in known if nats is not None), default=None)


class KeyFigures:
    """The figures of one configuration for one profile, each the median of its launches."""

    def __init__(self, profile: Profile, trials: Sequence[TrialRecord], workload: Workload) -> None:
        self._trials, self._workload, self._profile = trials, workload, profile
        shares = profile.depth_weights(workload.depths)
        self.depth = max(shares, key=lambda depth: (shares[depth], depth))
        """The depth that weighs most in this profile; of several the deepest."""
        content = max(profile.contents, key=lambda one: profile.contents[one])
        self.cell = Cell(content=content, depth=self.depth, streams=profile.streams)
        """The cell that weighs most in decoding."""

    @property
    def prefill_tps(self) -> float | None:
        """Cold prefill at that depth."""
        return prefill_by_depth(self._trials, self._workload).get(self.depth)

    @property
    def decode_tps(self) -> float | None:
        """Decode speed of that cell."""
        return decode_by_content(self._trials, self._workload).get(content_name(self.cell), {}).get(self.depth)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted share of the drafts in that cell; None without speculation."""
        at = acceptance_by_content(self._trials, self._workload).get(content_name(self.cell), {})
        return at.get(self.depth, {}).get("rate")

    @property
    def context_tokens(self) -> int | None:
        """Context of a slot."""
        measurement = self._trials[-1].measurement
        return measurement.actual.context_per_slot if measurement else None

    @property
    def memory_mib(self) -> float | None:
        """What the engine needs: on the graphics cards where it uses any, else in host memory."""
        measurement = self._trials[-1].measurement
        if measurement is None:
            return None
        on_cards = [
            use.memory_peak_mib - (use.memory_idle_mib or 0.0)
            for use in measurement.gpus
            if use.device is not None and use.memory_peak_mib is not None
        ]
        if on_cards:
            return sum(on_cards)
        on_devices = [mib for device, mib in measurement.actual.buffers_mib.items() if device != "CPU"]
        return sum(on_devices) if on_devices else measurement.host_rss_peak_mib

    @property
    def quality_nats(self) -> float | None:
        """How far answers are from the baseline's, the worse of the two places; None where that was not checked."""
        told = quality_json(self._trials)
        known = [told[place]["kl_nats"] for place in ("alone", "deep")] if told is not None else []
        return max((nats for nats in known if nats is not None), default=None)

    @property
    def quality(self) -> str:
        """The same in a word or two."""
        nats = self.quality_nats
        return "-" if nats is None else "same" if nats < NOISE_NATS else f"{nats:.2f} nats off"
