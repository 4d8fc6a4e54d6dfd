"""English prose: stories, letters, reports, essays and travel notes, each paragraph with its own people and places."""

from __future__ import annotations

from tuner.workload.texts import english_words as w
from tuner.workload.texts.grammar import Dice, Grammar, english, gerund, past
from tuner.workload.texts.task import Task

_CAST = ("hero", "he", "him", "his", "friend", "home")

_RULES: dict[str, list[str]] = {
    "role": w.ROLES,
    "temper": w.TEMPERS,
    "thing": w.THINGS,
    "quality": w.QUALITIES,
    "spot": w.SPOTS,
    "do": w.DEEDS,
    "did": [past(verb) for verb in w.DEEDS],
    "doing": [gerund(verb) for verb in w.DEEDS],
    "treat": w.SOCIAL,
    "treated": [past(verb) for verb in w.SOCIAL],
    "treating": [gerund(verb) for verb in w.SOCIAL],
    "went": w.WENT,
    "manner": w.MANNERS,
    "idea": w.IDEAS,
    "event": w.EVENTS,
    "month": w.MONTHS,
    "weekday": w.WEEKDAYS,
    "count": w.NUMBERS,
    "weather": w.WEATHER,
    "sector": w.SECTORS,
    "metric": w.METRICS,
    "cause": w.CAUSES,
    "surname": w.SURNAMES,
    "first": w.WOMEN + w.MEN,
    "town_start": w.TOWN_STARTS,
    "town_end": w.TOWN_ENDS,
    "town": ["«town_start»«town_end»"],
    "digit": list("0123456789"),
    "lead": list("123456789"),
    "year": ["18«lead»«digit»", "19«digit»«digit»", "20«decade»«digit»"],
    "decade": ["0", "1"],
    "percent": ["«lead».«digit»", "«lead»«digit».«digit»", "«lead»"],
    "money": ["«lead»«digit».«digit» million", "«lead»«digit»«digit»,«digit»00", "«lead».«digit» million"],
    "article": ["a", "the", "the other", "that"],
    "object": [
        "«article» «quality» «thing»",
        "«article» «thing»",
        "a «quality» «thing» and a «thing»",
        "the «role»'s «thing»",
        "«his» «thing»",
        "the «thing» from «town»",
        "a «thing» that smelled of the «spot»",
        "the «thing» beside the «spot»",
        "«count» «quality» boxes",
    ],
    "person": [
        "the «role»",
        "a «temper» «role»",
        "the «temper» «role»",
        "«friend»",
        "«first» «surname»",
        "the «role» from «town»",
        "old «surname» the «role»",
    ],
    "place": [
        "in the «spot»",
        "by the «spot»",
        "behind the «quality» «spot»",
        "near «town»",
        "between the «spot» and the «spot»",
        "on the road to «town»",
        "outside the «spot» at «town»",
    ],
    "toward": [
        "to the «spot»",
        "past the «spot»",
        "towards «town»",
        "back through the «spot»",
        "up to the «spot» wall",
    ],
    "when": [
        "in «month»",
        "one «weekday»",
        "«count» days later",
        "after the «event»",
        "before the «event»",
        "late that «weekday»",
        "in the «month» of «year»",
        "during the «event»",
        "in the first hour of the «event»",
    ],
    "speech": [
        "nobody in «town» would «do» a «thing» like that",
        "you may «do» the «thing», but «treat» the «role» first",
        "we must «do» «object» before «weekday»",
        "I «did» it «place», and I would do it again",
        "there is no «idea» in a «spot»",
        "did the «role» «treat» you «manner»",
        "the «event» has taught us «idea»",
        "ask «person» about the «thing»",
        "it was «idea» that «did» the «thing», not «idea»",
    ],
    "said": ["said", "whispered", "shouted", "muttered", "insisted", "remarked", "lied", "admitted", "repeated"],
    "story": [
        "«when», «hero» «did» «object» «place».",
        "«hero» «went» «toward» and «did» «object» «manner».",
        "«he» had meant to «do» «object», but «person» «treated» «him» «when».",
        "'«speech»,' «said» «person» «manner».",
        "'«speech»,' «said» «hero», «doing» «object».",
        "«weather» lay over «home», and «person» «went» «toward» without «treating» anyone.",
        "nobody «place» could say why «person» «did» «object».",
        "«he» remembered the «event» at «town», where «person» had «did» «object».",
        "«doing» «object» took «him» «count» hours; «doing» «object» took «person» only one.",
        "if «person» «did» «object», thought «hero», then «idea» was worth less than a «thing».",
        "«friend», who had never «treated» a «role», «manner» «did» «object».",
        "there was «object» «place», and beneath it «object».",
        "«when» «weather» came down on the «spot», and «person» «went» «toward».",
        "«hero» said nothing; «he» «did» «object» and waited for «person» to «treat» «him».",
        "what «person» called «idea», «friend» called «idea», and neither would «do» «object».",
        "«manner», almost «manner», «person» «did» «object» while «hero» «went» «toward».",
        "by the time «person» «went» «toward», «object» was gone.",
        "the door of the «spot» stood open, so «he» «did» «object» and «treated» «person».",
        "«count» of the «quality» «spot» windows were dark, yet «person» still «did» «object».",
        "it was not «idea» that made «him» «do» «object», nor the «idea» of «person».",
    ],
    "letter": [
        "you asked whether «person» still «treated» the «role» «place»; I am afraid «he» did, «manner».",
        "the «thing» you sent from «town» arrived «when», and I «did» it at once.",
        "please «do» «object» for me, and «treat» «person» if you pass the «spot».",
        "we have had «weather» since the «event», so «person» cannot «do» «object».",
        "my «role» says that «idea» will «do» nothing, but I «did» «object» all the same.",
        "I «went» «toward» «when» and thought of your «quality» «thing».",
        "«friend» sends «his» regards, together with «object».",
        "do you remember «person», who «did» «object» at the «event» in «town»?",
        "there is little news: the «spot» is shut, «person» «did» «object», and the «event» is put off until «month».",
        "forgive the «quality» paper; «person» «did» the rest to «do» «object».",
        "if you can spare «count» pounds, «person» would «do» «object» before «weekday».",
        "I never «treated» «person» as I ought, and now «he» has «went» «toward» for good.",
        "between ourselves, «surname» has more «idea» than «idea», and not much of a «thing».",
    ],
    "company": [
        "«surname» and «surname»",
        "the «town» «sector» board",
        "«town» «sector» works",
        "the «surname» group",
        "the «sector» division",
        "the «town» office",
    ],
    "moved": ["rose by", "fell by", "was down", "was up", "slipped", "climbed", "recovered by", "shrank by", "grew"],
    "sway": ["depress", "lift", "distort", "delay any change in", "hold back", "mask the trend in"],
    "quarter": ["the first quarter", "the second quarter", "the autumn", "«month»", "the year to «month»", "«year»"],
    "report": [
        "«company» said that «metric» «moved» «percent» per cent in «quarter», largely because of «cause».",
        "«metric» at «company» «moved» «percent» per cent, against «percent» per cent in «quarter».",
        "according to «first» «surname», who leads «company», «cause» and «cause» explain most of it.",
        "spending on «metric» reached «money» in «quarter», and «company» expects «money» by «month».",
        "the auditors of «company» found «count» errors in the figures for «metric», «count» of them in «town».",
        "without «cause», «metric» would have been «percent» per cent higher.",
        "in «town», where «company» employs «lead»«digit»«digit» people, «metric» «moved» «percent» per cent.",
        "the committee asks «company» to review «metric» before «month» and to publish «metric» by «weekday».",
        "«surname» warned that «cause» could «sway» «metric» for «count» months.",
        "a survey of «lead»«digit»«digit» «sector» firms named «cause» as the main worry, ahead of «cause».",
        "three options were considered: to «do» the «town» site, to «do» «metric», or to wait for «month».",
        "table «lead»«digit» compares «metric» with «metric» for «company» and for «company».",
        "as «cause» eased, «company» «did» «count» depots near «town» and «metric» «moved» «percent» per cent.",
        "neither «metric» nor «metric» changed much in «quarter», although the effects of «cause» reached «town».",
    ],
    "essay": [
        "it is tempting to suppose that «idea» follows from «idea», yet «person» may «do» both «manner».",
        "«idea» without «idea» is like a «quality» «thing» in a «spot».",
        "those who praise «idea» seldom «do» it; those who «do» «object» seldom speak of «idea».",
        "we learn «idea» as the «role» learns to «do» a «thing»: «manner», and by «doing» «object».",
        "in «town», after the «event» of «year», «idea» and «idea» changed places.",
        "what the «temper» call «idea», the «temper» call «idea».",
        "a «role» who can «do» «object» has no need of «idea».",
        "«surname», writing in «year», held that «idea» must «treat» «idea»; «surname» thought it absurd.",
        "perhaps «idea» begins where «person» stops «doing» «object».",
        "no «event» ever «did» «idea», though many a «role» has «did» «object» in its name.",
        "consider the «role»: «temper» at home, «temper» in the «spot», and never short of «idea».",
        "one may «do» «object» out of «idea», or out of «idea», and «person» will notice the difference.",
    ],
    "travel": [
        "from «town» the path climbs «count» miles «toward», where «person» will «do» «object» for a few coins.",
        "the «spot» at «town», built in «year» after the «event», holds «object» and little else.",
        "we reached «town» «when», in «weather», and «did» «object» before supper.",
        "travellers are told to «do» their «thing» at the «spot»; few of them «treat» the «role» who asks it.",
        "to the east stands a «quality» «spot», to the west a «spot», and over both hung «weather».",
        "here «person» «treated» us «manner» and showed us «object».",
        "the «role» at the «spot» told us that «town» had once «did» «object» to please a «role».",
        "«count» boats a day cross to «town», loaded with «quality» goods and «object».",
        "past the «spot» the road bends, and «weather» hides the «quality» «spot» of «town».",
        "our guide, a «temper» «role» called «surname», «went» «toward» and «did» «object».",
        "every «weekday» the people of «town» «do» a «quality» «thing» «place».",
    ],
    "request": [
        "Continue this story in vivid prose, with dialogue, for several paragraphs. «hero» is a «temper» «role» in "
        "«home»; «friend», a «role», has just «did» «object». They meet «place», «when».",
        "Write a short story set in «home» «when». It should follow «hero», a «temper» «role» who has «did» "
        "«object», and end with «friend» «doing» «object». Do not use headings.",
        "Write a long, warm letter from «hero», a «role» in «home», to «friend». Tell of the «event», "
        "of «person», and why «object» was never «did». Keep the tone «temper».",
        "Write the opening chapter of a novel about «idea» and «idea». Its hero is «hero», a «temper» "
        "«role»; it opens «place» in «weather», and «friend» wants to «do» «object».",
    ],
    "opening": [
        "«weather» had settled over «home» when «hero»",
        "The «thing» was still «place» when «hero» came",
        "«hero» had not thought of the «event» since «month», and",
        "On the morning of the «event», «hero» «did» the «thing» and",
    ],
}
_GRAMMAR = Grammar(_RULES, given=_CAST)
_REGISTERS = ("story", "story", "letter", "report", "essay", "travel")


def _cast(dice: Dice) -> dict[str, str]:
    surname, other = dice.some(w.SURNAMES, 2)
    woman = dice.chance(0.5)
    first = dice.pick(w.WOMEN if woman else w.MEN)
    he, him, his = ("she", "her", "her") if woman else ("he", "him", "his")
    return {
        "hero": f"{first} {surname}" if dice.chance(0.4) else first,
        "he": he,
        "him": him,
        "his": his,
        "friend": f"{dice.pick(w.WOMEN + w.MEN)} {other}",
        "home": dice.pick(w.TOWN_STARTS) + dice.pick(w.TOWN_ENDS),
    }


def block(dice: Dice) -> str:
    """A paragraph of three to five sentences."""
    register, cast = dice.pick(_REGISTERS), _cast(dice)
    return " ".join(map(english, _GRAMMAR.several(register, dice, dice.between(3, 5), cast)))


def task(dice: Dice) -> Task:
    """A story or letter to write, and its first words."""
    cast = _cast(dice)
    return Task(english(_GRAMMAR.expand("request", dice, cast)), english(_GRAMMAR.expand("opening", dice, cast)))


def town(dice: Dice) -> str:
    """The name of a town."""
    return _GRAMMAR.expand("town", dice)


def aside(dice: Dice) -> str:
    """One short clause that can stand in a note, a commit message or a log."""
    return english(_GRAMMAR.expand("speech", dice, _cast(dice)))
