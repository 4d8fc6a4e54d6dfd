"""Maths problems about numbers and letters alone. Numbers are chosen so that each result is exact."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, isqrt

from tuner.workload.texts.grammar import Dice
from tuner.workload.texts.word_problems import Problem


def _signed(number: int) -> str:
    return f"+ {number}" if number >= 0 else f"- {-number}"


def _linear(dice: Dice) -> Problem:
    a, b, x = dice.between(2, 19), dice.between(-90, 90), dice.between(-30, 60)
    c = a * x + b
    letter = dice.pick("xyztnk")
    question = dice.pick(("Solve {} for {}.", "Find the number that satisfies {}, called {}.", "If {}, what is {}?"))
    steps = (
        f"{c} {_signed(-b)} = {c - b}, so {a}{letter} must be {c - b}.",
        f"{c - b} / {a} = {x}.",
        f"check: {a} × ({x}) {_signed(b)} = {c}.",
    )
    return Problem(question.format(f"{a}{letter} {_signed(b)} = {c}", letter), steps, f"{letter} = {x}")


def _system(dice: Dice) -> Problem:
    x, y = dice.between(-12, 25), dice.between(-12, 25)
    a, b = dice.between(2, 12), dice.between(2, 12)
    total, mixed = x + y, a * x - b * y
    question = dice.pick(("Solve the system {} and {}.", "Two numbers x and y satisfy {} and {}. Find them."))
    steps = (
        f"y is {total} - x, which turns the second into {a + b}x = {mixed + b * total}.",
        f"x is ({mixed} + {b} × ({total})) / {a + b} = {x}.",
        f"y is {total} - ({x}) = {y}.",
        f"check: {a} × ({x}) - {b} × ({y}) = {mixed}.",
    )
    return Problem(question.format(f"x + y = {total}", f"{a}x - {b}y = {mixed}"), steps, f"x = {x}, y = {y}")


def _quadratic(dice: Dice) -> Problem:
    low = dice.between(-20, 15)
    high = low + dice.between(1, 25)
    b, c = -(low + high), low * high
    root = isqrt(b * b - 4 * c)
    question = dice.pick(("Find the roots of {}.", "Where does the curve y = {} cross the x-axis?", "Factor {}."))
    steps = (
        f"the discriminant is ({b})^2 - 4 × ({c}) = {b * b - 4 * c}, the square of {root}.",
        f"one root is ({-b} - {root}) / 2 = {low}.",
        f"the other is ({-b} + {root}) / 2 = {high}.",
        f"their product is ({low}) × ({high}) = {c}.",
    )
    return Problem(question.format(f"x^2 {_signed(b)}x {_signed(c)}"), steps, f"x = {low} or x = {high}")


def _series(dice: Dice) -> Problem:
    first, step, count = dice.between(1, 60), dice.between(2, 30), dice.between(8, 60)
    last = first + (count - 1) * step
    total = count * (first + last) // 2
    question = dice.pick(
        (
            "A sequence starts {0}, {1}, {2} and keeps its step. What is the sum of its first {3} terms?",
            "Add {3} numbers of the form {0}, {1}, {2}, and so on.",
            "{3} rows of seats hold {0}, {1}, {2}, ... people. How many seats are there?",
        )
    )
    steps = (
        f"the last term is {first} + {count - 1} × {step} = {last}.",
        f"the sum is {count} × ({first} + {last}) / 2 = {total}.",
    )
    return Problem(question.format(first, first + step, first + 2 * step, count), steps, f"{total}")


def _fractions(dice: Dice) -> Problem:
    b, d = dice.some(tuple(range(3, 26)), 2)
    a, c = dice.between(1, b - 1), dice.between(1, d - 1)
    top, bottom = a * d + c * b, b * d
    shared = gcd(top, bottom)
    question = dice.pick(("Compute {} + {}.", "What is the sum of {} and {}, in lowest terms?", "Simplify {} + {}."))
    reduced = f"{top // shared}/{bottom // shared}"
    steps = (
        f"over {b} × {d} = {bottom}, the tops are {a} × {d} = {a * d} and {c} × {b} = {c * b}.",
        f"({a * d} + {c * b}) / {bottom} = {top}/{bottom}.",
        f"{top} and {bottom} share the factor {shared}: {top}/{bottom} = {reduced}.",
    )
    return Problem(question.format(f"{a}/{b}", f"{c}/{d}"), steps, reduced)


def _divisor(dice: Dice) -> Problem:
    shared = dice.between(2, 40)
    a, b = shared * dice.between(5, 60), shared * dice.between(5, 60)
    question = dice.pick(
        (
            "Find the greatest common divisor of {} and {}.",
            "What is the largest square tile that fits a floor of {} by {}?",
        )
    )
    steps: list[str] = []
    high, low = max(a, b), min(a, b)
    while low:
        steps.append(f"{high} = {high // low} × {low} + {high % low}.")
        high, low = low, high % low
    return Problem(question.format(a, b), tuple(steps), f"{high}")


def _triangle(dice: Dice) -> Problem:
    # Euclid's formula: m² - n², 2mn and m² + n² are the sides of a right triangle.
    n = dice.between(1, 8)
    m, k = n + dice.between(1, 8), dice.between(1, 7)
    a, b, c = k * (m * m - n * n), 2 * k * m * n, k * (m * m + n * n)
    question = dice.pick(
        (
            "The legs of a right triangle measure {} and {}. How long is the hypotenuse?",
            "A ladder reaches {} cm up a wall from a point {} cm away. How long is it?",
            "A ship sails {} km north, then {} km east. How far from its start is it?",
        )
    )
    steps = (f"{a}^2 + {b}^2 = {a * a + b * b}.", f"{c} × {c} = {c * c}, so the root is {c}.")
    return Problem(question.format(a, b), steps, f"{c}")


def _remainder(dice: Dice) -> Problem:
    base, power, modulus = dice.between(3, 29), dice.between(3, 6), dice.between(7, 97)
    steps: list[str] = []
    value = base % modulus
    for exponent in range(2, power + 1):
        product = value * base
        steps.append(
            f"{value} × {base} = {product} = {product // modulus} × {modulus} + {product % modulus} (power {exponent})."
        )
        value = product % modulus
    question = dice.pick(("What remains when {}^{} is divided by {}?", "Compute {}^{} modulo {}."))
    return Problem(question.format(base, power, modulus), tuple(steps), f"{value}")


ALGEBRA: tuple[Callable[[Dice], Problem], ...] = (
    _linear,
    _system,
    _quadratic,
    _series,
    _fractions,
    _divisor,
    _triangle,
    _remainder,
)
