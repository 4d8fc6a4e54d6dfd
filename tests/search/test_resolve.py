"""From a space file to the space of one study."""

from __future__ import annotations

from typing import Any

import pytest

from tests.search.spaces import devices, facts, flags, reasons, resolved
from tuner.domain.configuration import Value
from tuner.domain.errors import BadInput, UnknownFlag
from tuner.domain.facts import Device
from tuner.search.space import complete, violations

THREADS = """
[parameters.threads]
flag = "--threads"
low = 1
high = "machine.physical_cores"
default = "machine.physical_cores"
"""
SPEC = """
[parameters.spec]
flag = "--spec"
choices = ["none", "ngram", { value = "mtp", requires = "model.mtp_layers > 0" }]
default = "none"

[parameters.depth]
flag = "--depth"
low = 1
high = 8
default = 3
when = "spec contains mtp"
"""
BATCHES = """
[parameters.batch]
flag = "--batch"
choices = [512, 2048]
default = 2048

[parameters.chunk]
flag = "--chunk"
choices = [128, 512]
default = 512
"""


def test_bounds_and_defaults_may_be_facts() -> None:
    threads = resolved(THREADS, facts=facts(machine_physical_cores=6)).by_name["threads"]
    assert (threads.low, threads.high, threads.default) == (1, 6, 6)


def test_a_bound_that_is_not_known_here_leaves_the_parameter_out() -> None:
    space = resolved(THREADS + BATCHES, facts=facts(machine_physical_cores=None))
    assert list(space.by_name) == ["batch", "chunk"]
    assert "machine.physical_cores" in reasons(space)["threads"]
    assert "unknown" in reasons(space)["threads"]


@pytest.mark.parametrize("key", ["low", "high", "default"])
def test_a_bound_that_is_no_fact_is_a_mistake(key: str) -> None:
    lines = {"low": "1", "high": "8", "default": "2"} | {key: '"machine.physical_corse"'}
    with pytest.raises(BadInput, match=r"`threads`.*machine\.physical_corse"):
        resolved('[parameters.threads]\nflag = "--threads"\n' + "\n".join(f"{k} = {v}" for k, v in lines.items()))


def test_a_fact_that_is_false_or_unknown_drops_the_parameter_and_says_which() -> None:
    text = THREADS + 'requires = "machine.gpus == 0 or model.size_mib > machine.memory_mib"\n'
    assert "threads" in resolved(text).by_name
    space = resolved(text, facts=facts(machine_gpus=2, model_size_mib=None))
    assert "threads" not in space.by_name
    reason = reasons(space)["threads"]
    assert "machine.gpus is 2" in reason
    assert "model.size_mib is unknown" in reason
    assert "machine.memory_mib is 64000" in reason


def test_a_choice_that_needs_a_fact() -> None:
    space = resolved(SPEC, facts=facts(model_mtp_layers=1))
    assert space.by_name["spec"].choices == ("none", "ngram", "mtp")
    assert "depth" in space.by_name
    assert space.dropped == ()


def test_what_hangs_on_a_value_that_is_not_here_is_left_out() -> None:
    space = resolved(SPEC)
    assert space.by_name["spec"].choices == ("none", "ngram")
    assert reasons(space).keys() == {"spec=mtp", "depth"}
    assert "model.mtp_layers is 0" in reasons(space)["spec=mtp"]
    assert "spec contains mtp" in reasons(space)["depth"]


def test_what_hangs_on_what_was_left_out_is_left_out_too() -> None:
    text = SPEC + '[parameters.sure]\nflag = "--sure"\nchoices = [0.0, 0.5]\ndefault = 0.0\nwhen = "depth > 2"\n'
    assert list(resolved(text).by_name) == ["spec"]
    assert list(resolved(text, facts=facts(model_mtp_layers=1)).by_name) == ["spec", "depth", "sure"]


@pytest.mark.parametrize(
    ("when", "can_hold"),
    [
        ("chunk <= batch", True),
        ("batch == chunk", True),
        ("batch < chunk", False),
        ("chunk == 128 and batch == 512", True),
        ("chunk == 256", False),
        ("chunk contains 12", True),
    ],
)
def test_a_condition_over_several_parameters_is_tried_with_all_their_values(when: str, can_hold: bool) -> None:
    text = BATCHES + f'[parameters.more]\nflag = "--more"\nchoices = ["a", "b"]\ndefault = "a"\nwhen = "{when}"\n'
    assert ("more" in resolved(text).by_name) is can_hold


def test_a_default_that_is_not_offered_here_gives_way() -> None:
    text = """
[parameters.fit]
flag = "--fit"
choices = ["off", { value = "on", requires = "engine.devices > 0" }]
default = "on"
"""
    assert resolved(text).by_name["fit"].default == "off"
    assert resolved(text, facts=facts(engine_devices=1)).by_name["fit"].default == "on"


@pytest.mark.parametrize(
    "domain",
    [
        'choices = ["a", "b"]\ndefault = "c"',
        "choices = [1, 2]\ndefault = 3",
        "choices = [1, 2]\ndefault = true",
        'choices = [1, 2]\ndefault = "1"',
        "low = 1\nhigh = 8\ndefault = 9",
        "low = 1\nhigh = 9\nstep = 4\ndefault = 3",
        'low = 1\nhigh = 8\ndefault = "auto"',
        "low = 8\nhigh = 1\ndefault = 4",
        "low = 0\nhigh = 8\nlog = true\ndefault = 1",
    ],
)
def test_a_default_outside_its_domain_and_a_domain_that_is_none_are_mistakes(domain: str) -> None:
    with pytest.raises(BadInput, match="`x`"):
        resolved(f'[parameters.x]\nflag = "--x"\n{domain}\n')


def test_steps_are_the_values_that_there_are() -> None:
    text = '[parameters.x]\nflag = "--x"\nlow = 0\nhigh = 10\nstep = 4\ndefault = 0\n'
    assert resolved(text).by_name["x"].choices == (0, 4, 8)
    assert resolved(text.replace("4", "2.5")).by_name["x"].choices == (0.0, 2.5, 5.0, 7.5, 10.0)
    tenths = resolved(text.replace("10", "1").replace("4", "0.1")).by_name["x"].choices
    assert tenths == tuple(i / 10 for i in range(11))


def test_a_range_with_one_broken_number_holds_broken_numbers_only() -> None:
    space = resolved('[parameters.x]\nflag = "--x"\nlow = 0\nhigh = 1.5\ndefault = 1\n')
    x = space.by_name["x"]
    assert [type(value) for value in (x.low, x.high, x.default)] == [float, float, float]


# ---- flags -----------------------------------------------------------------------------------------------------------


def test_a_flag_that_is_missing_or_removed_is_named_with_the_nearest() -> None:
    known = flags("--batchsize", "--spec-type", draft={"removed": "use --spec-type"})
    text = BATCHES.replace('"--chunk"', '"--draft"').replace('"--batch"', '"--batch-size"')
    told = reasons(resolved(text, known))
    assert told == {
        "batch": "this engine build does not know --batch-size (nearest flag it knows: --batchsize)",
        "chunk": "this engine build has removed --draft (use --spec-type)",
    }
    assert "no similar flag" in reasons(resolved(text, flags("--zzz")))["batch"]


@pytest.mark.parametrize(
    ("known", "told"),
    [(flags("--chunk", "--batches"), "--batches"), (flags("--chunk", batch={"removed": "x"}), "removed")],
)
def test_in_a_file_of_ones_own_it_is_an_error(known: Any, told: str) -> None:
    with pytest.raises(UnknownFlag) as caught:
        resolved(BATCHES, known, strict=True)
    assert "`batch`" in caught.value.what
    assert told in str(caught.value)


def test_both_flags_of_a_switch_must_be_known() -> None:
    text = """
[parameters.mmap]
kind = "switch"
flag = "--mmap"
off_flag = "--no-mmap"
choices = [true, false]
default = true
"""
    assert "mmap" in resolved(text, flags(mmap={"negations": ("--no-mmap",), "takes_value": False})).by_name
    assert "--no-mmap" in reasons(resolved(text, flags("--mmap")))["mmap"]


@pytest.mark.parametrize(
    ("listed", "several", "kept"),
    [
        (None, False, ("none", "a", "b", "a,b", "unset")),
        (("none", "a", "b"), True, ("none", "a", "b", "a,b", "unset")),
        (("none", "a"), True, ("none", "a", "unset")),
        (("none", "a", "b"), False, ("none", "a", "b", "unset")),
    ],
)
def test_values_that_the_help_text_does_not_list_are_left_out(
    listed: Any, several: bool, kept: tuple[str, ...]
) -> None:
    text = '[parameters.spec]\nflag = "--spec"\nchoices = ["none", "a", "b", "a,b", "unset"]\ndefault = "none"\n'
    space = resolved(text, flags(spec={"allowed": listed, "list_valued": several}))
    assert space.by_name["spec"].choices == kept
    assert len(space.dropped) == 5 - len(kept)
    assert all("--spec" in reason for reason in reasons(space).values())


def test_a_flag_that_the_user_fixed_is_not_searched() -> None:
    space = resolved(BATCHES, fixed_flags=frozenset({"-b", "--batch"}))
    assert list(space.by_name) == ["chunk"]
    assert "--batch" in reasons(space)["batch"]


@pytest.mark.parametrize("rule", ["chunk <= batch", "batch >= chunk", "chunk == batch", "batch != chunk"])
@pytest.mark.parametrize("fixed", ["--chunk", "--batch"])
def test_a_rule_about_what_is_fixed_forbids_nothing(rule: str, fixed: str) -> None:
    text = BATCHES + f'[[rules]]\nrequire = "{rule}"\nbecause = "so it is"\n'
    space = resolved(text, fixed_flags=frozenset({fixed}))
    (left,) = space.parameters
    for choice in left.choices or ():
        assert violations(space, complete(space, {left.name: choice})) == []


# ---- what the user runs today ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "present", "choices"),
    [
        ("choices = [128, 512]\ndefault = 512", 300, (128, 512, 300)),
        ("choices = [128, 512]\ndefault = 512", 128, (128, 512)),
        ('choices = ["f16", "q8_0"]\ndefault = "f16"', "q4_0", ("f16", "q8_0", "q4_0")),
        ("choices = [0.0, 0.5]\ndefault = 0.5", 0, (0.0, 0.5)),
        ("low = 0\nhigh = 8\nstep = 4\ndefault = 0", 6, (0, 4, 8, 6)),
        ("low = 0\nhigh = 8\nstep = 4\ndefault = 0", 11, (0, 4, 8, 11)),
    ],
)
def test_choices_are_widened_to_hold_the_users_value_which_becomes_the_default(
    domain: str, present: Value, choices: tuple[Value, ...]
) -> None:
    x = resolved(f'[parameters.x]\nflag = "--x"\n{domain}\n', present={"x": present}).by_name["x"]
    assert x.choices == choices
    assert x.default == present
    assert x.contains(x.default)


@pytest.mark.parametrize(("present", "low", "high"), [(0, 0, 8), (12, 1, 12), (4, 1, 8)])
def test_a_range_is_widened_to_hold_the_users_value(present: int, low: int, high: int) -> None:
    x = resolved('[parameters.x]\nflag = "--x"\nlow = 1\nhigh = 8\ndefault = 2\n', present={"x": present}).by_name["x"]
    assert (x.low, x.high, x.default) == (low, high, present)


# ---- mistakes in expressions and seeds -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "unknown"),
    [
        (BATCHES + 'when = "bach == 512"', "parameters.chunk.when", "bach"),
        (BATCHES + 'when = "batch > chnk"', "parameters.chunk.when", "chnk"),
        (BATCHES + 'when = "machine.gpus > 0"', "parameters.chunk.when", "machine.gpus"),
        (BATCHES + 'requires = "machine.gpu > 0"', "parameters.chunk.requires", "machine.gpu"),
        (BATCHES + 'requires = "model.size_mib > machine.memory"', "parameters.chunk.requires", "machine.memory"),
        (BATCHES + 'requires = "batch > 0"', "parameters.chunk.requires", "batch"),
        (BATCHES.replace("[128,", '[128, { value = 9, requires = "moe" },'), "parameters.chunk.choices", "moe"),
        (BATCHES + '[[rules]]\nrequire = "chunk <= bach"\nbecause = "x"', "rules", "bach"),
        (BATCHES + '[[rules]]\nrequire = "chnk <= batch"\nbecause = "x"', "rules", "chnk"),
    ],
)  # fmt: skip
def test_an_unknown_name_in_an_expression_is_an_error(text: str, place: str, unknown: str) -> None:
    with pytest.raises(BadInput) as caught:
        resolved(text)
    assert place in caught.value.what
    assert f"`{unknown}`" in caught.value.what


def test_an_expression_is_checked_even_where_its_parameter_is_left_out() -> None:
    with pytest.raises(BadInput, match="bach"):
        resolved(BATCHES + 'when = "bach == 512"', flags("--batch"))


SEED = '[[seeds]]\nname = "small"\nbecause = "x"\nvalues = { batch = 512, chunk = 128 }\n'


def test_seeds_that_apply_are_kept_and_others_left_out_by_name() -> None:
    assert [seed.name for seed in resolved(BATCHES + SEED).seeds] == ["small"]
    for space in (
        resolved(BATCHES + SEED, flags("--batch")),
        resolved(BATCHES + SEED.replace("128", "100")),
        resolved(BATCHES + SEED.replace("128", '"128"')),
    ):
        assert space.seeds == ()
        assert reasons(space)["seed: small"] == "does not apply here: chunk"


def test_a_seed_that_names_no_parameter_is_a_mistake() -> None:
    with pytest.raises(BadInput, match=r"`small`.*`chnk`"):
        resolved(BATCHES + SEED.replace("chunk", "chnk"))


def test_a_seed_of_all_cards_comes_once_for_each_backend_that_sees_them() -> None:
    text = """
[parameters.device]
kind = "device"
flag = "--device"
[[seeds]]
name = "all cards"
because = "x"
values = { device = "all" }
"""
    seen = [("Vulkan0", "RTX 4090"), ("Vulkan1", "RX 7900 XTX"), ("CUDA0", "RTX 4090")]
    unlike = tuple(Device(name=name, description=about, free_mib=16_000) for name, about in seen)
    seeds = {seed.name: seed.values["device"] for seed in resolved(text, devices=unlike).seeds}
    assert seeds == {"all cards: Vulkan0,Vulkan1": "Vulkan0,Vulkan1", "all cards: CUDA0,Vulkan1": "CUDA0,Vulkan1"}
    (one,) = resolved(text, devices=unlike[:2]).seeds
    assert (one.name, one.values) == ("all cards", {"device": "Vulkan0,Vulkan1"})
    # A single card has nothing to choose: the seed does not apply.
    alone = resolved(text, devices=unlike[:1])
    assert alone.seeds == ()


# ---- what follows from the machine -----------------------------------------------------------------------------------


def test_choices_that_follow_from_the_machine() -> None:
    kinds = {"ctx": "context", "dev": "device", "ts": "split", "mg": "main_device", "m": "model"}
    text = "".join(f'[parameters.{name}]\nkind = "{kind}"\nflag = "--{name}"\n' for name, kind in kinds.items())
    text += '[parameters.bin]\nkind = "binary"\n'
    space = resolved(text, devices=devices(2), models=("/a.gguf", "/b.gguf"), binaries=("/e", "/f"))
    by_name = space.by_name
    context = by_name["ctx"]
    assert context.choices is not None
    assert (context.choices[0], context.choices[-1], context.default) == (8192, 32768, 32768)
    assert space.with_role("context") is context
    assert by_name["dev"].choices == ("CUDA0,CUDA1", "CUDA1,CUDA0", "CUDA0", "CUDA1")
    assert by_name["dev"].default == "CUDA0,CUDA1"
    assert by_name["mg"].choices == (0, 1)
    assert by_name["m"].choices == ("/a.gguf", "/b.gguf")
    assert by_name["m"].target == "model"
    assert by_name["bin"].choices == ("/e", "/f")
    assert by_name["bin"].target == "binary"


def test_with_no_devices_what_lists_them_is_left_out() -> None:
    space = resolved('[parameters.dev]\nkind = "device"\nflag = "--dev"\n')
    assert space.parameters == ()
    assert "none of its values" in reasons(space)["dev"]


@pytest.mark.parametrize(("least", "trained"), [(8192, None), (65536, None), (None, 4096), (None, None), (8192, 8192)])
def test_every_context_on_offer_is_enough_whatever_is_known(least: int | None, trained: int | None) -> None:
    text = '[parameters.ctx]\nkind = "context"\nflag = "--ctx"\n'
    ctx = resolved(text, facts=facts(study_ctx_min=least, model_trained_context=trained)).by_name["ctx"]
    assert ctx.choices
    assert min(int(choice) for choice in ctx.choices) >= (least or 4096)
    assert trained is None or max(ctx.choices) == trained


SPIN = """
[parameters.spin]
kind = "environment"
environment = "GOMP_SPINCOUNT"
choices = ["unset", "0"]
default = "unset"
"""


def test_a_variable_that_the_user_has_fixed_is_not_searched() -> None:
    assert "spin" in resolved(SPIN).by_name
    space = resolved(SPIN, fixed_environment=frozenset({"GOMP_SPINCOUNT"}))
    assert "spin" not in space.by_name
    assert "your own environment" in reasons(space)["spin"]


@pytest.mark.parametrize(("text", "name"), [(THREADS, "threads"), (BATCHES, "batch"), (BATCHES, "chunk")])
def test_a_word_where_a_number_belongs_is_refused_before_anything_is_made(text: str, name: str) -> None:
    with pytest.raises(BadInput, match="abc"):
        resolved(text, present={name: "abc"})
