"""Reading search space files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.search.spaces import space_file
from tuner.domain.errors import BadInput, MissingFile
from tuner.search.space_file import ChoiceTable, read_space_file


def test_strings_stay_strings_and_numbers_keep_their_kind() -> None:
    file = space_file(
        '[parameters.x]\nflag = "--x"\ndefault = ""\nchoices = ["on", "1", 1, 1.0, true, { value = 2, requires = "" }]'
    )
    choices = file.parameters["x"].choices
    assert choices is not None
    assert [type(choice) for choice in choices] == [str, str, int, float, bool, ChoiceTable]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match=r"nowhere\.toml"):
        read_space_file(tmp_path / "nowhere.toml")
    with pytest.raises(MissingFile):
        read_space_file(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'engine = "\xe9"')
    with pytest.raises(MissingFile):
        read_space_file(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("choices = [1]\ndefault = 1", "needs `flag`"),
        ('kind = "switch"\nchoices = [true, false]\ndefault = true', "needs `flag`"),
        ('kind = "environment"\nflag = "--x"\nchoices = ["1"]\ndefault = "1"', "needs `environment`"),
        ('kind = "model"', "needs `flag`"),
        ('kind = "split"', "needs `flag`"),
        ('kind = "switch"\nflag = "--x"\nchoices = ["on", "off"]\ndefault = "on"', "true and false"),
        ('kind = "switch"\nflag = "--x"\nlow = 0\nhigh = 1\ndefault = 0', "true and false"),
        ('flag = "--x"\nchoices = [1]\nlow = 1\nhigh = 2\ndefault = 1', "`choices`, or"),
        ('flag = "--x"\nlow = 1\ndefault = 1', "`choices`, or"),
        ('flag = "--x"\ndefault = 1', "`choices`, or"),
        ('flag = "--x"\nlow = 1\nhigh = 9\nstep = 0\ndefault = 1', "step"),
        ('flag = "--x"\nlow = 1\nhigh = 9\nstep = -2\ndefault = 1', "step"),
        ('flag = "--x"\nchoices = []\ndefault = 1', "choices"),
    ],
)
def test_a_parameter_that_could_change_nothing_is_refused(table: str, told: str) -> None:
    with pytest.raises(BadInput) as caught:
        space_file(f'[parameters.y]\nflag = "--y"\nchoices = [1]\ndefault = 1\n\n[parameters.x]\n{table}')
    assert told in str(caught.value)
    assert "x" in caught.value.what
    assert caught.value.where is not None
    assert "line" in caught.value.where


def test_the_version_is_checked(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('schema_version = 2\nengine = "x"\n[parameters]\n')
    with pytest.raises(BadInput, match="schema_version"):
        read_space_file(tmp_path / "s.toml")
