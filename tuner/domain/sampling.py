"""How the next token is chosen in the measured requests."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Sampling(BaseModel):
    """A user's sampling settings, under the names that OpenAI's API and llama-server share. None: not said.

    Greedy unless something is said. With a temperature drafts are accepted by chance, so that speculation gains less:
    who samples wants to see the gain under the settings in use.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    temperature: float | None = Field(default=None, ge=0, le=10)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=0)
    """0: all tokens."""
    min_p: float | None = Field(default=None, ge=0, lt=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    repeat_penalty: float | None = Field(default=None, gt=0, le=10)
    """1: none."""
    seed: int | None = Field(default=None, ge=0, lt=2**32)

    @model_validator(mode="after")
    def _samples(self) -> Sampling:
        cuts = [name for name in ("top_p", "top_k", "min_p") if getattr(self, name) is not None]
        if cuts and not self.temperature:
            raise ValueError(f"{cuts[0]} changes nothing without a temperature above 0")
        return self

    def given(self) -> dict[str, float]:
        """What was said, by name."""
        return self.model_dump(exclude_none=True)

    def __str__(self) -> str:
        """For a person: `greedy`, or `temperature 0.7, top_p 0.95`."""
        return ", ".join(f"{name} {value:g}" for name, value in self.given().items()) or "greedy"


GREEDY = Sampling()
