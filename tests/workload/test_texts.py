"""The generated texts: the same everywhere, never repeating, and right where they can be wrong."""

from __future__ import annotations

import ast
import builtins
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from hashlib import sha256
from itertools import islice
from math import gcd

import pytest

from tuner.domain.workload import INSTRUCTION_TOKENS, Content
from tuner.workload import texts
from tuner.workload.texts import document, instruction, mixed_document, opening, salt
from tuner.workload.texts.grammar import Dice, Grammar, english

BUILT_IN = [content for content in Content if content is not Content.OWN]
EVERY = pytest.mark.parametrize("content", BUILT_IN)
WORD = re.compile(r"[\u4e00-\u9fff]|[A-Za-z]+|\d+|[^\w\s]|_")
EQUATION = re.compile(
    r"(?<![\w.^])(?<![-+×/] )(?P<chain>SIDE(?: = SIDE)+)".replace("SIDE", r"[(]*-?\d(?:[-+×/^()\d ]*[\d)])?")
)

# A change here makes new measurements incomparable with old ones: it must be on purpose.
DIGESTS = {
    "code": "86986de7ccae8433",
    "tool": "b7f5668ba51a4896",
    "math": "0f858f752b5a7e6b",
    "prose-en": "56d9d8af1ad4b1c9",
    "prose-zh": "3d1956bf6b160938",
}


def take(blocks: Iterator[str], characters: int) -> list[str]:
    taken: list[str] = []
    total = 0
    while total < characters:
        taken.append(next(blocks))
        total += len(taken[-1])
    return taken


@cache
def sample(content: Content) -> tuple[str, ...]:
    return tuple(take(document(content, 7), 250_000))


def digest(content: Content) -> str:
    parts = ["".join(take(document(content, 1), 50_000)), instruction(content, 1), opening(content, 1)]
    return sha256("\x00".join(parts).encode()).hexdigest()[:16]


def repeated_share(text: str, length: int) -> float:
    """Share of the n-grams of words, digit groups, marks and Chinese characters that occur more than once."""
    words = WORD.findall(text)
    counts = Counter(zip(*(words[start:] for start in range(length)), strict=False))
    return sum(count for count in counts.values() if count > 1) / sum(counts.values())


@EVERY
def test_the_text_is_the_one_that_other_machines_generate(content: Content) -> None:
    assert digest(content) == DIGESTS[content.value]


def test_another_process_with_other_hashes_generates_the_same() -> None:
    program = (
        "from itertools import islice; from hashlib import sha256\n"
        "from tuner.workload.texts import mixed_document, salt\n"
        "print(sha256(''.join([*islice(mixed_document(3), 60), salt('s')]).encode()).hexdigest())"
    )
    here = sha256("".join([*islice(mixed_document(3), 60), salt("s")]).encode()).hexdigest()
    for hash_seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(filter(None, sys.path))}
        ran = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert ran.stdout.strip() == here


@EVERY
def test_the_longest_document_has_no_block_twice_and_is_quick_to_write(content: Content) -> None:
    before = time.process_time()
    blocks = take(document(content, 5), 1_200_000)
    # Well under a second on an idle desktop; the margin is for a loaded one.
    assert time.process_time() - before < 10
    assert len(set(blocks)) == len(blocks)


# Shares measured when the grammars were written: code 0.02, tool 0.12, maths 0.04, English 0.002, Chinese 0.04.
# Code and JSON have frames that any real material repeats too (`for x in y: if x.`, `"arguments": {"`).
@pytest.mark.parametrize(
    ("content", "most"),
    [
        (Content.CODE, 0.05),
        (Content.TOOL, 0.20),
        (Content.MATH, 0.06),
        (Content.PROSE_EN, 0.01),
        (Content.PROSE_ZH, 0.06),
    ],
)
def test_n_gram_drafting_finds_hardly_anything_to_copy(content: Content, most: float) -> None:
    assert repeated_share("".join(sample(content)), 12) < most


def test_the_measure_of_repeats_sees_a_repeat() -> None:
    text = "".join(sample(Content.PROSE_EN)[:50])
    assert repeated_share(text, 12) < 0.01
    assert repeated_share(text + text, 12) > 0.99


@EVERY
def test_blocks_are_whole_and_of_a_readable_size(content: Content) -> None:
    blocks = sample(content)
    assert all(block.endswith("\n") and 50 < len(block) < 1300 for block in blocks)
    assert 100 < sum(map(len, blocks)) / len(blocks) < 500
    assert not re.search("[«»]", "".join(blocks))


def test_python_blocks_parse_and_use_only_names_they_have() -> None:
    sources = [found for block in sample(Content.CODE) for found in re.findall(r"```python\n(.*?)\n```", block, re.S)]
    assert len(sources) > 100
    outside = {"logger", "metrics", "store", "replace", "takewhile", "pairwise", "defaultdict", "Counter"}
    for source in sources:
        tree = ast.parse(source)
        nodes = list(ast.walk(tree))
        known = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        known |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        known |= {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
        used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        unknown = {name for name in used - known - outside - set(dir(builtins)) if not name[0].isupper()}
        assert not unknown, source


@pytest.mark.parametrize("language", ["typescript", "sql"])
def test_other_languages_are_there_with_balanced_brackets(language: str) -> None:
    sources = re.findall(rf"```{language}\n(.*?)\n```", "".join(sample(Content.CODE)), re.S)
    assert len(sources) > 50
    for source in sources:
        assert all(source.count(left) == source.count(right) for left, right in ("()", "[]", "{}")), source


def test_tool_blocks_are_json_calls_and_results() -> None:
    seen: set[str] = set()
    for block in sample(Content.TOOL):
        record = json.loads(block)
        calls = record.get("tool_calls", [record])
        seen.update(call.get("name", call.get("tool")) for call in calls)
        assert "content" in record or isinstance(record["arguments"], dict)
    assert len(seen) > 500


def value(expression: str) -> Fraction:
    source = re.sub(r"\d+", r"Fraction(\g<0>)", expression.replace("×", "*").replace("^", "**"))
    result = eval(source, {"Fraction": Fraction})
    assert isinstance(result, Fraction)
    return result


def test_every_equation_in_the_maths_holds() -> None:
    for block in sample(Content.MATH):
        chains = [found["chain"] for found in EQUATION.finditer(block)]
        assert chains, block
        for chain in chains:
            assert len({value(side) for side in chain.split(" = ")}) == 1, f"{chain!r} in {block}"


def test_the_equation_check_sees_a_wrong_one() -> None:
    found = EQUATION.search("So the gap is 4 × (-3) + 20 = 9 km. Then")
    assert found
    assert [value(side) for side in found["chain"].split(" = ")] == [8, 9]


def test_maths_answers_solve_their_questions() -> None:
    solved: Counter[str] = Counter()
    for block in sample(Content.MATH):
        question, answer = block.split("\n")[0], block.rstrip().split("\n")[-1].rstrip(".")
        numbers = [int(number) for number in re.findall(r"-?\d+", answer)]
        linear = re.search(r"(\d+)[xyztnk] ([+-]) (\d+) = (-?\d+)", question)
        quadratic = re.search(r"x\^2 ([+-]) (\d+)x ([+-]) (\d+)", question)
        divisor = re.search(r"(?:divisor of (\d+) and|floor of (\d+) by) (\d+)", question)
        power = re.search(r"(\d+)\^(\d+) (?:is divided by|modulo) (\d+)", question)
        sides = re.search(r"(?:measure|reaches|sails) (\d+) .*?(\d+)", question)
        system = re.search(r"x \+ y = (-?\d+) and (\d+)x - (\d+)y = (-?\d+)", question)
        if system:
            total, a, b, mixed = map(int, system.groups())
            x, y = numbers
            assert (x + y, a * x - b * y) == (total, mixed), block
            solved["system"] += 1
        elif linear:
            factor, shift, result = int(linear[1]), int(linear[2] + linear[3]), int(linear[4])
            assert factor * numbers[-1] + shift == result, block
            solved["linear"] += 1
        elif quadratic:
            b, c = int(quadratic[1] + quadratic[2]), int(quadratic[3] + quadratic[4])
            assert len(set(numbers)) == 2, block
            assert all(x * x + b * x + c == 0 for x in numbers), block
            solved["quadratic"] += 1
        elif divisor:
            assert numbers == [gcd(int(divisor[1] or divisor[2]), int(divisor[3]))], block
            solved["divisor"] += 1
        elif power:
            assert numbers == [pow(int(power[1]), int(power[2]), int(power[3]))], block
            solved["power"] += 1
        elif sides:
            assert numbers[0] ** 2 == int(sides[1]) ** 2 + int(sides[2]) ** 2, block
            solved["triangle"] += 1
    assert len(solved) == 6
    assert min(solved.values()) >= 10


def test_english_is_english_and_chinese_is_chinese() -> None:
    english_text, chinese_text = "".join(sample(Content.PROSE_EN)), "".join(sample(Content.PROSE_ZH))
    assert english_text.isascii()
    assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", english_text)
    assert len(set(re.findall(r"[a-z]+", english_text))) > 1500
    letters = [character for character in chinese_text if character.isalpha()]
    assert all("\u4e00" <= letter <= "\u9fff" for letter in letters)
    assert len(letters) > 0.8 * len(chinese_text)


@EVERY
def test_seeds_and_contents_give_different_texts(content: Content) -> None:
    assert len({next(document(content, seed)) for seed in range(100)}) == 100
    assert len({instruction(content, seed) for seed in range(100)}) == 100
    assert len({instruction(other, 1) for other in BUILT_IN}) == len(BUILT_IN)


def tokens_at_most(text: str) -> int:
    """More than common tokenizers need: a token for each mark, digit, Chinese character and five letters."""
    pieces = re.findall(r"[\u4e00-\u9fff]|[A-Za-z]{1,5}|\d|[^\w\s]|_|\n", text)
    return len(pieces)


@EVERY
def test_instructions_fit_into_the_room_that_is_left_for_them(content: Content) -> None:
    sizes = [tokens_at_most(instruction(content, seed) + opening(content, seed)) for seed in range(100)]
    assert min(sizes) >= 40
    assert max(sizes) < INSTRUCTION_TOKENS


def test_code_tasks_hold_a_function_to_edit_and_open_with_its_name() -> None:
    for seed in range(50):
        asked, begun = instruction(Content.CODE, seed), opening(Content.CODE, seed)
        source = asked.partition("```python\n")[2].removesuffix("\n```")
        (function,) = ast.parse(source).body
        assert isinstance(function, ast.FunctionDef)
        assert 10 <= len(source.splitlines()) <= 25
        assert begun == f"```python\ndef {function.name}("


def test_tool_tasks_ask_for_listed_tools_and_open_an_array() -> None:
    for seed in range(50):
        asked = instruction(Content.TOOL, seed)
        listed = re.findall(r"^(\w+)\(", asked, re.M)
        first = re.search(r"Please (\w+) the (\w+) with", asked)
        assert len(listed) == 3
        assert first
        assert f"{first[1]}_{first[2]}" in listed
        assert json.loads(opening(Content.TOOL, seed) + "0}}]")[0]["name"] == f"{first[1]}_{first[2]}"


def test_mixed_documents_have_every_content_early_and_in_turn() -> None:
    sections = list(islice(mixed_document(4), 2 * len(BUILT_IN)))
    assert all(re.match(rf"## {place}\. \S", section) for place, section in enumerate(sections, start=1))
    bodies = [section.partition("\n\n")[2] for section in sections]
    expected = [list(islice(document(content, 4), 2)) for content in BUILT_IN]
    assert bodies == [blocks[turn] for turn in range(2) for blocks in expected]


def test_salts_differ_early_and_cannot_be_guessed() -> None:
    salts = [salt(f"study/{number}") for number in range(500)]
    assert len(set(salts)) == 500
    assert len({each.split()[0] for each in salts}) > 100
    assert max(Counter(each.split()[0] for each in salts).values()) < 20
    assert salt("study/1") == salts[1]


def test_a_slot_that_nothing_fills_is_refused() -> None:
    with pytest.raises(ValueError, match="spot"):
        Grammar({"line": ["in the «spot»"]})


def test_dice_reach_every_option_and_nothing_else() -> None:
    dice = Dice("x")
    assert {dice.between(3, 6) for _ in range(200)} == {3, 4, 5, 6}
    assert {dice.pick("abc") for _ in range(100)} == set("abc")
    assert all(len(set(dice.some("abcd", 3))) == 3 for _ in range(50))
    assert sum(dice.chance(0.25) for _ in range(2000)) / 2000 == pytest.approx(0.25, abs=0.05)


def test_english_mends_articles_and_capitals_also_in_speech() -> None:
    assert english("'a egg and a hen,' said he") == "'An egg and a hen,' said he"


def test_the_fingerprint_is_that_of_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = texts.fingerprint()
    assert re.fullmatch(r"[0-9a-f]{12}", before)
    monkeypatch.setitem(texts._BLOCKS, Content.MATH, lambda dice: f"another text {dice.pick('abc')}")
    texts.fingerprint.cache_clear()
    try:
        assert texts.fingerprint() != before
    finally:
        monkeypatch.undo()
        texts.fingerprint.cache_clear()
    assert texts.fingerprint() == before
