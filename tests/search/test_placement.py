"""Values that follow from the machine."""

from __future__ import annotations

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from tuner.domain.facts import Device
from tuner.search.placement import CONTEXT_STEP, cards, context_ladder, device_choices, split_choices

memories = st.lists(
    st.builds(
        Device,
        name=st.just(""),
        description=st.just("GPU"),
        total_mib=st.one_of(st.none(), st.integers(4000, 100_000)),
        free_mib=st.one_of(st.none(), st.integers(2000, 100_000)),
    ),
    max_size=5,
).map(lambda drawn: [device.model_copy(update={"name": f"CUDA{index}"}) for index, device in enumerate(drawn)])


@given(st.integers(1, 300_000), st.integers(512, 1_000_000))
@example(1000, 1000)
@example(5000, 5120)
@example(4096, 4096)
def test_contexts_ascend_from_what_is_needed_to_what_was_trained(least: int, trained: int) -> None:
    ladder = context_ladder(least, trained)
    assert list(ladder) == sorted(set(ladder))
    assert ladder[-1] == trained if trained >= least else ladder == (trained,)
    assert ladder[0] >= min(least, trained)
    assert ladder[0] < least + CONTEXT_STEP
    # The engine pads contexts: two that it makes the same would be one configuration measured twice.
    padded = [-(-size // CONTEXT_STEP) for size in ladder]
    assert len(set(padded)) == len(padded)
    steps = [after / before for before, after in itertools.pairwise(ladder)]
    assert all(step <= 2 for step in steps), "no gap that somebody would notice"
    assert len(ladder) <= 24


def test_a_usual_ladder() -> None:
    assert context_ladder(8192, 32768) == (8192, 12288, 16384, 24576, 32768)


@given(memories)
def test_devices_together_both_ways_and_each_alone(devices: list[Device]) -> None:
    names = [device.name for device in devices]
    choices = device_choices(devices)
    assert len(set(choices)) == len(choices)
    assert set(names) <= set(choices)
    if len(names) > 1:
        assert choices[:2] == (",".join(names), ",".join(reversed(names)))
        assert len(choices) == len(names) + 2


@given(memories)
def test_shares_are_per_cents_of_every_device_around_its_memory(devices: list[Device]) -> None:
    choices = split_choices(devices)
    assert len(set(choices)) == len(choices)
    if len(devices) < 2:
        assert choices == ()
        return
    for choice in choices:
        shares = [int(share) for share in choice.split(",")]
        assert len(shares) == len(devices)
        assert abs(sum(shares) - 100) <= len(devices)
        assert min(shares) >= 0
    memory = [device.free_mib or device.total_mib or 1 for device in devices]
    plain = [int(share) for share in choices[0].split(",")]
    for share, mib in zip(plain, memory, strict=True):
        exact = 100 * mib / sum(memory)
        assert abs(share - exact) <= 3 or (len(devices) == 2 and not 10 <= exact <= 90)


def test_each_device_gets_more_and_less_than_its_memory() -> None:
    devices = [Device(name=f"D{i}", description="", free_mib=10_000) for i in range(3)]
    shares = [tuple(map(int, choice.split(","))) for choice in split_choices(devices)]
    for index in range(3):
        assert min(share[index] for share in shares) < 20
        assert max(share[index] for share in shares) > 45
    two = [tuple(map(int, choice.split(","))) for choice in split_choices(devices[:2])]
    assert two[0] == (50, 50)
    assert {first for first, _ in two} == set(range(10, 95, 5))


def test_a_card_that_two_backends_see_is_never_used_twice() -> None:
    seen = {"CUDA0": "RTX 4090", "Vulkan0": "RTX 4090", "Vulkan1": "RX 7900 XTX (RADV NAVI31)", "ROCm0": "RX 7900 XTX"}
    devices = [Device(name=name, description=about, free_mib=16_000) for name, about in seen.items()]
    assert [[device.name for device in card] for card in cards(devices)] == [["CUDA0", "Vulkan0"], ["Vulkan1", "ROCm0"]]
    choices = device_choices(devices)
    assert {"CUDA0,Vulkan1", "Vulkan0,Vulkan1", "CUDA0,ROCm0", *seen} <= set(choices)
    for choice in choices:
        used = choice.split(",")
        assert all(sum(device.name in used for device in card) <= 1 for card in cards(devices)), choice
    assert all(len(split.split(",")) == 2 for split in split_choices(devices))


def test_twins_in_one_backend_are_two_cards() -> None:
    twins = [Device(name=name, description="RTX 3090") for name in ("CUDA0", "CUDA1", "Vulkan0", "Vulkan1")]
    assert [[device.name for device in card] for card in cards(twins)] == [["CUDA0", "Vulkan0"], ["CUDA1", "Vulkan1"]]
