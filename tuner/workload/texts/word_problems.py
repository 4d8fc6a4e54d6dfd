"""Maths problems told about people and things. Numbers are chosen so that each result is exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tuner.workload.texts import english_words as w
from tuner.workload.texts.grammar import Dice, Grammar, plural


class Problem(NamedTuple):
    """A question, the steps of its solution, and the answer."""

    question: str
    steps: tuple[str, ...]
    answer: str


_SLOTS = tuple("abcdefg")
_QUESTIONS = Grammar(
    {
        "name": w.WOMEN + w.MEN,
        "surname": w.SURNAMES,
        "role": w.ROLES,
        "spot": w.SPOTS,
        "quality": w.QUALITIES,
        "things": [plural(thing) for thing in w.THINGS if thing != "bellows"],
        "thing": [thing for thing in w.THINGS if thing != "bellows"],
        "start": w.TOWN_STARTS,
        "end": w.TOWN_ENDS,
        "town": ["«start»«end»"],
        "weekday": w.WEEKDAYS,
        "vehicle": ["train", "van", "ferry", "coach", "cyclist", "lorry", "tram", "barge", "messenger", "horse-cart"],
        "find": [
            "Find",
            "Work out",
            "Calculate",
            "Determine",
            "Help «name» to find",
            "Tell the «role»",
            "«name» wants to know",
            "Write down for the «role»",
        ],
        "shopping": [
            "«name» buys «a» «quality» «things» at «b» euros each and «c» «things» at «d» euros each. «find» the cost.",
            "«a» «things» cost «b» euros each; «c» «quality» «things» cost «d» euros each. «find» the price of all.",
            "at the «spot», the «role» sells «a» «things» for «b» euros apiece and «c» «things» for «d» apiece. "
            "«find» what «name» «surname» owes.",
        ],
        "discount": [
            "a «quality» «thing» in «town» costs «a» euros. On «weekday» the «role» takes off «b»%. «find» "
            "the new price.",
            "«name» wants the «thing» marked «a» euros. With «b»% off, what must be paid at the «spot»?",
            "the «spot» cuts the price of a «thing», «a» euros until «weekday», by «b»%. What does it cost now?",
        ],
        "journey": [
            "a «vehicle» leaves «town» for «town» at «a» km/h for «b» hours, then does «c» hours at «d» km/h. "
            "«find» the distance.",
            "«name» travels by «vehicle», «b» hours at «a» km/h and «c» hours at «d» km/h, from «town» to the «spot». "
            "«find» how far that is.",
        ],
        "meeting": [
            "a «vehicle» from «town» at «a» km/h and a «vehicle» from «town» at «b» km/h head for each "
            "other, «c» km apart. "
            "«find» the time until they meet.",
            "«town» and «town» are «c» km apart. «name» sets out at «a» km/h and the «role» comes towards "
            "«name» at «b». "
            "«find» when they meet.",
        ],
        "average": [
            "the «role» counted «a», «b», «c», «d» and «e» «things» on five days. «find» the average.",
            "on five days «a», «b», «c», «d» and «e» people visited the «spot» at «town». «find» the mean.",
            "«name»'s «things» weigh «a», «b», «c», «d» and «e» grams. «find» their mean weight.",
        ],
        "draw": [
            "a «thing» holds «a» «kind» and «b» «quality» marbles. «name» draws two. «find» the chance of "
            "two «kind» ones.",
            "of the «things» in the «spot», «a» are «kind» and «b» are not. The «role» takes two at random. "
            "«find» how likely two «kind» ones are.",
        ],
        "ages": [
            "«name» is «a» years older than «name» the «role». Together they are «b». «find» the age of the younger.",
            "two «things» from the «spot» are «b» years old together, and one is «a» years older. «find» "
            "the lesser age.",
        ],
        "garden": [
            "the «spot» of «name» «surname» is «a» m long and «b» m wide; around it a «role» lays a path «c» m wide. "
            "«find» the area of the path.",
            "a «quality» picture of a «thing», «a» cm by «b» cm, has a «quality» frame «c» cm wide. "
            "«find» the area of the frame.",
        ],
        "interest": [
            "«name» lends the «role» «a» euros at «b»% simple interest a year. «find» what is owed after «c» years.",
            "the «spot» of «town» borrows «a» euros for «c» years at a simple rate of «b»%. «find» what is paid back.",
        ],
        "sharing": [
            "«a» «things» are shared in the ratio «b» : «c» between «name» and the «role». «find» the shares.",
            "«name» and «name» «surname» split «a» euros from a «quality» «thing», «b» : «c». «find» what each gets.",
        ],
        "filling": [
            "one tap fills the «thing» at the «spot» in «a» minutes, a «quality» one in «b». «find» the time for both.",
            "«name» clears the «spot» in «a» hours and the «role» in «b». «find» how long they need together.",
            "the «quality» pump empties the «spot» of «town» in «a» days, «name»'s pump in «b». «find» the "
            "time for both.",
        ],
        "packing": [
            "the «role» packs «a» «things» into boxes of «b». «find» the number of full boxes and of «things» left.",
            "«name» stacks «a» «quality» «things» in rows of «b» in the «spot». «find» the full rows and the rest.",
        ],
    },
    given=(*_SLOTS, "kind"),
)


def _ask(dice: Dice, rule: str, *numbers: int) -> str:
    given = dict(zip(_SLOTS, map(str, numbers), strict=False))
    return _QUESTIONS.expand(rule, dice, {**given, "kind": dice.pick(w.QUALITIES)})


def _shopping(dice: Dice) -> Problem:
    a, b, c, d = dice.between(2, 40), dice.between(2, 90), dice.between(2, 40), dice.between(2, 90)
    x, y = a * b, c * d
    steps = (f"{a} × {b} = {x}.", f"{c} × {d} = {y}.", f"together {x} + {y} = {x + y}.")
    return Problem(_ask(dice, "shopping", a, b, c, d), steps, f"{x + y} euros")


def _discount(dice: Dice) -> Problem:
    price, percent = dice.between(2, 90) * 20, dice.between(1, 19) * 5
    off = price * percent // 100
    steps = (f"{percent}% of {price} is {price} × {percent} / 100 = {off}.", f"{price} - {off} = {price - off}.")
    return Problem(_ask(dice, "discount", price, percent), steps, f"{price - off} euros")


def _journey(dice: Dice) -> Problem:
    a, b, c, d = dice.between(9, 140), dice.between(2, 9), dice.between(2, 9), dice.between(9, 140)
    x, y = a * b, c * d
    steps = (
        f"the first part is {a} × {b} = {x} km.",
        f"the second is {d} × {c} = {y} km.",
        f"{x} + {y} = {x + y}.",
    )
    return Problem(_ask(dice, "journey", a, b, c, d), steps, f"{x + y} km")


def _meeting(dice: Dice) -> Problem:
    a, b, hours = dice.between(11, 120), dice.between(11, 120), dice.between(2, 12)
    gap = (a + b) * hours
    steps = (
        f"the gap closes at {a} + {b} = {a + b} km/h.",
        f"{gap} km take {gap} / {a + b} = {hours} hours.",
        f"check: {a} × {hours} + {b} × {hours} = {gap}.",
    )
    return Problem(_ask(dice, "meeting", a, b, gap), steps, f"{hours} hours")


def _average(dice: Dice) -> Problem:
    values = [dice.between(11, 400) for _ in range(4)]
    last = dice.between(11, 400)
    last += -(sum(values) + last) % 5
    values.append(last)
    total = sum(values)
    steps = (f"{' + '.join(map(str, values))} = {total}.", f"with five values, {total} / 5 = {total // 5}.")
    return Problem(_ask(dice, "average", *values), steps, f"{total // 5}")


def _draw(dice: Dice) -> Problem:
    a, b = dice.between(3, 40), dice.between(2, 40)
    n = a + b
    top, bottom = a * (a - 1), n * (n - 1)
    steps = (
        f"there are {a} + {b} = {n} in all.",
        f"the first is right in {a} of {n} cases, the second in {a - 1} of {n - 1}.",
        f"{a} × {a - 1} = {top} and {n} × {n - 1} = {bottom}.",
    )
    return Problem(_ask(dice, "draw", a, b), steps, f"{top}/{bottom}, about {top / bottom:.3f}")


def _ages(dice: Dice) -> Problem:
    gap, younger = dice.between(2, 39), dice.between(5, 60)
    total = 2 * younger + gap
    steps = (
        f"let x be the lesser: x + (x + {gap}) = {total}, or 2x = {total - gap}.",
        f"{total - gap} / 2 = {younger}.",
        f"check: {younger} + {younger + gap} = {total}.",
    )
    return Problem(_ask(dice, "ages", gap, total), steps, f"{younger} years")


def _garden(dice: Dice) -> Problem:
    a, b, c = dice.between(12, 90), dice.between(8, 60), dice.between(1, 4)
    outer, inner = (a + 2 * c) * (b + 2 * c), a * b
    steps = (
        f"the inner area is {a} × {b} = {inner}.",
        f"the outer sides are {a} + 2 × {c} = {a + 2 * c} and {b} + 2 × {c} = {b + 2 * c}.",
        f"{a + 2 * c} × {b + 2 * c} = {outer}.",
        f"the difference is {outer} - {inner} = {outer - inner}.",
    )
    return Problem(_ask(dice, "garden", a, b, c), steps, f"{outer - inner} square units")


def _interest(dice: Dice) -> Problem:
    sum_lent, percent, years = dice.between(3, 95) * 100, dice.between(2, 12), dice.between(2, 15)
    yearly = sum_lent * percent // 100
    owed = sum_lent + yearly * years
    steps = (
        f"a year brings {sum_lent} × {percent} / 100 = {yearly} euros.",
        f"{years} years bring {yearly} × {years} = {yearly * years}.",
        f"{sum_lent} + {yearly * years} = {owed}.",
    )
    return Problem(_ask(dice, "interest", sum_lent, percent, years), steps, f"{owed} euros")


def _sharing(dice: Dice) -> Problem:
    left, right, part = dice.between(2, 9), dice.between(2, 9), dice.between(3, 70)
    total = (left + right) * part
    steps = (
        f"there are {left} + {right} = {left + right} parts.",
        f"one part is {total} / {left + right} = {part}.",
        f"the shares are {left} × {part} = {left * part} and {right} × {part} = {right * part}.",
    )
    return Problem(_ask(dice, "sharing", total, left, right), steps, f"{left * part} and {right * part}")


def _filling(dice: Dice) -> Problem:
    # Times of k·m·(m+n) and k·n·(m+n) together give k·m·n: a whole number.
    m, n, k = dice.between(1, 9), dice.between(2, 11), dice.between(1, 12)
    a, b, both = k * m * (m + n), k * n * (m + n), k * m * n
    steps = (
        f"the parts done at a time are 1/{a} and 1/{b}.",
        f"the sum is ({a} + {b}) / ({a} × {b}) = 1/{both}.",
        f"in full, {a} × {b} / ({a} + {b}) = {both}.",
    )
    return Problem(_ask(dice, "filling", a, b), steps, f"{both}")


def _packing(dice: Dice) -> Problem:
    size, full = dice.between(6, 48), dice.between(7, 90)
    rest = dice.between(1, size - 1)
    total = size * full + rest
    steps = (f"{size} × {full} = {size * full}, and one more would be too many.", f"{total} - {size * full} = {rest}.")
    return Problem(_ask(dice, "packing", total, size), steps, f"{full} full, {rest} left")


WORD_PROBLEMS: tuple[Callable[[Dice], Problem], ...] = (
    _shopping,
    _discount,
    _journey,
    _meeting,
    _average,
    _draw,
    _ages,
    _garden,
    _interest,
    _sharing,
    _filling,
    _packing,
)
