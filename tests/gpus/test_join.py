"""Which device of the engine is which card."""

from __future__ import annotations

import pytest

from tuner.domain.facts import Device
from tuner.domain.gpu import GpuIdentity
from tuner.gpus.cuda_order import cuda_cards
from tuner.gpus.join import JoinedBy, Joining, join_devices
from tuner.gpus.names import names_agree, names_differ, vendor_of
from tuner.gpus.pci import bus_order, normal_bus_id


def card(name: str, total_mib: float | None = 24576, bus: str | None = None, uuid: str | None = None) -> GpuIdentity:
    bus_id = None if bus is None else f"0000:{bus}:00.0"
    vendor = vendor_of(name) or "NVIDIA"
    return GpuIdentity(vendor=vendor, name=name, total_mib=total_mib, pci_bus_id=bus_id, uuid=uuid, source="a test")


def device(name: str, description: str, total_mib: int | None = 24080) -> Device:
    return Device(name=name, description=description, total_mib=total_mib)


RTX_3090 = "NVIDIA GeForce RTX 3090"
TWINS = [card(RTX_3090, bus="41", uuid="GPU-bbb"), card(RTX_3090, bus="03", uuid="GPU-aaa")]
TWIN_DEVICES = [device("CUDA0", RTX_3090), device("CUDA1", RTX_3090)]
IN_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def ways(joining: Joining) -> dict[str, tuple[int, JoinedBy]]:
    return {join.device: (join.card, join.how) for join in joining.joined}


def test_different_cards_are_told_by_name_and_memory() -> None:
    """In whatever order: CUDA's is the fastest first."""
    cards = [card("NVIDIA GeForce RTX 3060", 12288), card(RTX_3090)]
    devices = [device("CUDA0", RTX_3090), device("CUDA1", "NVIDIA GeForce RTX 3060", 11909)]
    joining = join_devices(devices, cards)
    assert ways(joining) == {"CUDA0": (1, JoinedBy.NAME_AND_MEMORY), "CUDA1": (0, JoinedBy.NAME_AND_MEMORY)}
    assert joining.unjoined == ()
    assert (joining.card_of("CUDA1"), joining.card_of("CUDA7")) == (0, None)


def test_the_bus_id_is_believed_before_anything_else() -> None:
    told = {"CUDA0": "00000000:41:00.0", "CUDA1": "(0000:03:00.0)"}
    joining = join_devices(TWIN_DEVICES, TWINS, bus_ids=told)
    assert ways(joining) == {"CUDA0": (0, JoinedBy.BUS_ID), "CUDA1": (1, JoinedBy.BUS_ID)}


def test_one_told_bus_id_leaves_the_other_twin() -> None:
    joining = join_devices(TWIN_DEVICES, TWINS, bus_ids={"CUDA0": "0000:41:00.0"})
    assert ways(joining)["CUDA1"] == (1, JoinedBy.NAME_AND_MEMORY)


def test_a_device_whose_bus_id_is_of_no_known_card_is_not_joined_to_another() -> None:
    joining = join_devices([device("CUDA0", RTX_3090)], [card(RTX_3090, bus="03")], bus_ids={"CUDA0": "0000:99:00.0"})
    assert ways(joining) == {}


def test_twins_are_not_guessed_at() -> None:
    joining = join_devices(TWIN_DEVICES, TWINS)
    assert joining.joined == ()
    assert [each.device for each in joining.unjoined] == ["CUDA0", "CUDA1"]
    assert "2 cards" in joining.unjoined[0].why
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in str(joining.unjoined[0].advice)


@pytest.mark.parametrize(
    ("devices", "cards"),
    [
        (TWIN_DEVICES[:1], TWINS),  # The engine sees one of two.
        (TWIN_DEVICES, TWINS[:1]),  # The driver tells one of two.
    ],
)
def test_one_of_two_twins_is_not_guessed_at_either(devices: list[Device], cards: list[GpuIdentity]) -> None:
    assert join_devices(devices, cards).joined == ()


def test_twins_in_the_order_of_the_bus() -> None:
    joining = join_devices(TWIN_DEVICES, TWINS, environment=IN_ORDER)
    assert ways(joining) == {"CUDA0": (1, JoinedBy.CUDA_ORDER), "CUDA1": (0, JoinedBy.CUDA_ORDER)}


def test_the_order_is_cudas_alone() -> None:
    devices = [device("Vulkan0", RTX_3090), device("Vulkan1", RTX_3090)]
    joining = join_devices(devices, TWINS, environment=IN_ORDER)
    assert joining.joined == ()
    assert joining.unjoined[0].advice is None


@pytest.mark.parametrize(
    ("visible", "joined"),
    [("1", 0), ("0", 1), ("GPU-bbb", 0), ("GPU-aaa", 1)],
)
def test_visible_cards(visible: str, joined: int) -> None:
    environment = {**IN_ORDER, "CUDA_VISIBLE_DEVICES": visible}
    assert ways(join_devices(TWIN_DEVICES[:1], TWINS, environment=environment)) == {
        "CUDA0": (joined, JoinedBy.CUDA_ORDER)
    }


def test_the_order_counts_only_when_the_numbers_are_the_same() -> None:
    """CUDA leaves out cards that its build does not support, and NVML does not."""
    cards = [*TWINS, card("NVIDIA GeForce GTX 750", 2048, bus="01")]
    assert join_devices(TWIN_DEVICES, cards, environment=IN_ORDER).joined == ()


def test_the_order_does_not_overrule_the_name() -> None:
    cards = [card(RTX_3090, bus="03"), card("NVIDIA GeForce RTX 4090", bus="41")]
    joining = join_devices(TWIN_DEVICES, cards, environment=IN_ORDER)
    assert "CUDA1" not in ways(joining)


@pytest.mark.parametrize(
    ("environment", "places"),
    [
        ({}, None),
        ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, None),
        (IN_ORDER, [1, 0]),
        ({**IN_ORDER, "CUDA_VISIBLE_DEVICES": "1,0"}, [0, 1]),
        ({**IN_ORDER, "CUDA_VISIBLE_DEVICES": "0, 7,1"}, [1]),
        ({**IN_ORDER, "CUDA_VISIBLE_DEVICES": ""}, []),
        ({**IN_ORDER, "CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, None),
        ({"CUDA_VISIBLE_DEVICES": "GPU-bbb,GPU-a"}, [0, 1]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-"}, None),
    ],
)
def test_what_cuda_counts(environment: dict[str, str], places: list[int] | None) -> None:
    assert cuda_cards([*TWINS, card("AMD Radeon RX 6800")], environment) == places


def test_two_back_ends_list_the_same_card() -> None:
    devices = [device("CUDA0", RTX_3090), device("Vulkan0", RTX_3090, 24822)]
    joining = join_devices(devices, [card(RTX_3090)])
    assert {name: place for name, (place, _) in ways(joining).items()} == {"CUDA0": 0, "Vulkan0": 0}


def test_cards_of_other_machines_are_none_of_these() -> None:
    joining = join_devices([device("RPC0[10.0.0.2:50052]", RTX_3090)], [card(RTX_3090)])
    assert joining.joined == ()
    assert "another machine" in joining.unjoined[0].why


def test_a_card_without_a_model_name_is_told_by_vendor_and_memory() -> None:
    cards = [card("AMD GPU 1002:744c", 24560), card("NVIDIA GeForce RTX 3060", 12288)]
    joining = join_devices([device("Vulkan0", "AMD Radeon RX 7900 XTX (RADV NAVI31)", 24576)], cards)
    assert ways(joining) == {"Vulkan0": (0, JoinedBy.VENDOR_AND_MEMORY)}


def test_a_card_without_known_memory_is_told_by_its_name() -> None:
    joining = join_devices(
        [device("Vulkan0", "Intel(R) Arc(tm) A770 Graphics (DG2)", 16032)], [card("Intel Arc A770", None)]
    )
    assert ways(joining) == {"Vulkan0": (0, JoinedBy.NAME)}


@pytest.mark.parametrize(
    ("description", "total_mib", "other"),
    [
        ("NVIDIA GeForce RTX 4090", 24080, card(RTX_3090)),  # Same memory.
        ("NVIDIA GeForce RTX 3060", 7800, card("NVIDIA GeForce RTX 3060", 12288)),  # Same name.
        ("AMD Radeon Graphics (RADV RAPHAEL)", 24080, card(RTX_3090)),
        ("AMD Radeon Graphics (RADV RAPHAEL)", None, card("AMD GPU 1002:164e", None)),  # Nothing but the vendor.
        ("llvmpipe (LLVM 19.1.7, 256 bits)", 24080, card("Card")),  # Not even that.
    ],
)
def test_what_is_not_alike_is_not_joined(description: str, total_mib: int | None, other: GpuIdentity) -> None:
    joining = join_devices([device("Vulkan0", description, total_mib)], [other])
    assert joining.joined == ()
    assert len(joining.unjoined) == 1


@pytest.mark.parametrize(
    ("engine_mib", "card_mib", "same"), [(3903, 4096, True), (7971, 8192, True), (10240, 11264, False)]
)
def test_memory_is_the_same_within_what_a_driver_keeps(engine_mib: int, card_mib: float, same: bool) -> None:
    joining = join_devices([device("CUDA0", "NVIDIA P1", engine_mib)], [card("NVIDIA P1", card_mib)])
    assert bool(joining.joined) == same


SAME = [
    ("AMD Radeon RX 7900 XTX (RADV NAVI31)", "Radeon RX 7900 XTX"),
    ("AMD Radeon RX 7900 XTX", "Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]"),
    ("AMD Radeon RX 7900 GRE", "Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M"),
    ("NVIDIA GeForce RTX 3080 Ti", "NVIDIA GeForce RTX 3080Ti"),
    ("NVIDIA RTX A6000", "A6000"),
    ("Intel(R) Arc(tm) A770 Graphics (DG2)", "Intel Arc A770"),
]
OTHER = [
    ("AMD Radeon RX 7900 XTX", "AMD Radeon RX 7900 XT"),
    ("NVIDIA GeForce RTX 4070", "NVIDIA GeForce RTX 4070 Ti"),
    ("NVIDIA GeForce RTX 4070 Ti", "NVIDIA GeForce RTX 4070 Ti SUPER"),
    ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090 Laptop GPU"),
    (RTX_3090, "NVIDIA GeForce RTX 4090"),
]
NOT_TOLD = [
    ("AMD Radeon RX 7900 XTX", "AMD device 0x744c"),
    ("AMD Radeon Graphics (RADV RAPHAEL)", "AMD GPU 1002:164e"),
    (RTX_3090, "NVIDIA card"),
]


@pytest.mark.parametrize(
    ("one", "other", "agree", "differ"),
    [(*pair, True, False) for pair in SAME]
    + [(*p, False, True) for p in OTHER]
    + [(*p, False, False) for p in NOT_TOLD],
)
def test_names(one: str, other: str, agree: bool, differ: bool) -> None:
    for first, second in ((one, other), (other, one)):
        assert (names_agree(first, second), names_differ(first, second)) == (agree, differ)


@pytest.mark.parametrize(
    ("text", "bus_id"),
    [
        ("00000000:0A:00.0", "0000:0a:00.0"),
        ("using device CUDA0 (NVIDIA GeForce RTX 3090) (0000:03:00.0) - 23306 MiB free", "0000:03:00.0"),
        ("03:00.1", "0000:03:00.1"),
        ("00010000:03:00.0", "10000:03:00.0"),
        ("unknown id", None),
        ("", None),
    ],
)
def test_bus_ids_in_every_spelling(text: str, bus_id: str | None) -> None:
    assert normal_bus_id(text) == bus_id


def test_the_order_of_the_bus_is_that_of_its_numbers() -> None:
    ids = ["0000:03:00.0", "0000:0a:00.0", "0001:01:00.0", "10000:01:00.0"]
    assert sorted([*ids[2:], *ids[:2]], key=bus_order) == ids
