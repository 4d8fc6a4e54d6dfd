"""Reading profiles: those that come with the tuner, and a user's own TOML file that adds to them or replaces some."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuner.domain.conversation import Conversation
from tuner.domain.errors import BadInput
from tuner.domain.profile import DepthName, Profile
from tuner.domain.toml_text import parse_toml
from tuner.domain.workload import Content
from tuner.search.space_file import read_text

_OWN_PROMPTS = "own-prompts"


class ProfileTable(BaseModel):
    """One `[profiles.NAME]` table: a `Profile` without its name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    about: str = ""
    prefill: float = Field(default=0, ge=0)
    decode: float = Field(default=0, ge=0)
    context: float = Field(default=0, ge=0)
    contents: dict[Content, float]
    depths: dict[DepthName, float]
    least_context: int = Field(default=4096, ge=1)
    streams: int = Field(default=1, ge=1)


class ProfilesFile(BaseModel):
    """A whole profiles file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1]
    profiles: dict[str, ProfileTable]


def read_profiles(*paths: Path) -> dict[str, Profile]:
    """Name -> profile from all files; a later file's profile replaces an earlier one of the same name.

    Raises:
        MissingFile, BadInput: as for search space files.
    """
    profiles: dict[str, Profile] = {}
    for path in paths:
        for name, table in parse_toml(read_text(path), ProfilesFile, where=str(path)).profiles.items():
            try:
                profiles[name] = Profile(name=name, **table.model_dump())
            except ValidationError as error:
                message = error.errors()[0]["msg"].removeprefix("Value error, ")
                raise BadInput(
                    f"Profile `{name}`: {message}", where=str(path), advice="profiles.toml shows some that work"
                ) from error
    return profiles


def select_profiles(
    known: dict[str, Profile], names: tuple[str, ...], prompts: Sequence[Conversation] = ()
) -> tuple[Profile, ...]:
    """The profiles named, in that order; all of them for no names.

    Profiles for the user's own prompts are there only where there are such, and then also where other profiles are
    named. One of the user's own that weighs them takes the place of the shipped one.

    Raises:
        BadInput: a name that does not exist, or that needs prompts; says which is nearest.
    """
    weighing_own = [name for name, profile in known.items() if Content.OWN in profile.contents]
    left_out = [name for name in weighing_own if not prompts or (name == _OWN_PROMPTS and len(weighing_own) > 1)]
    offered = {name: profile for name, profile in known.items() if name not in left_out}
    for name in names:
        if name in left_out and not prompts:
            raise BadInput(f"The profile `{name}` needs prompts of your own", advice="name them: --prompts FILE")
        if name not in offered:
            nearest = get_close_matches(name, offered, n=1)
            hint = f"did you mean `{nearest[0]}`? " if nearest else ""
            raise BadInput(f"There is no profile `{name}`", advice=f"{hint}known: {', '.join(offered)}")
    selected = list(names or offered)
    if prompts and not set(selected) & set(weighing_own):
        selected += [name for name in weighing_own if name in offered]
    return tuple(offered[name] for name in selected)
