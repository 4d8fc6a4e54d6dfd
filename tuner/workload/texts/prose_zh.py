"""Chinese prose: stories, letters, reports and reflections, each paragraph with its own people and places."""

from __future__ import annotations

from tuner.workload.texts import chinese_words as w
from tuner.workload.texts.grammar import Dice, Grammar
from tuner.workload.texts.task import Task

_CAST = ("hero", "ta", "friend", "home")

_RULES: dict[str, list[str]] = {
    "surname": w.SURNAMES,
    "given_name": w.GIVEN,
    "role": w.ROLES,
    "temper": w.TEMPERS,
    "thing": w.THINGS,
    "quality": w.QUALITIES,
    "spot": w.SPOTS,
    "did": w.DEEDS,
    "treat": w.SOCIAL,
    "manner": w.MANNERS,
    "idea": w.IDEAS,
    "event": w.EVENTS,
    "weather": w.WEATHER,
    "time": w.TIMES,
    "trade": w.TRADES,
    "metric": w.METRICS,
    "cause": w.CAUSES,
    "place_start": w.PLACE_STARTS,
    "place_end": w.PLACE_ENDS,
    "town": ["«place_start»«place_end»", "«place_start»«place_start»«place_end»"],
    "count": ["两", "三", "四", "五", "六", "七", "八", "九", "十", "十几", "几十", "上百"],
    "digit": list("0123456789"),
    "lead": list("123456789"),
    "percent": ["«lead»«digit»%", "«lead».«digit»%", "«han»成", "«lead»«digit»个百分点"],
    "share": ["«lead»«digit»%", "«han»成"],
    "amount": ["«lead»«digit»«digit»万元", "«lead».«digit»亿元", "«lead»«digit»万元"],
    "year": ["一九«han»«han»年", "二零一«han»年", "二零零«han»年"],
    "han": list("一二三四五六七八九"),
    "month": ["一月", "二月", "三月", "四月", "五月", "六月", "七月", "八月", "九月", "十月", "十一月", "十二月"],
    "object": [
        "那«thing»",
        "这«thing»",
        "一«thing»",
        "«quality»那«thing»",
        "从«town»带回的那«thing»",
        "«role»留下的那«thing»",
        "«spot»的那«thing»",
        "一«thing»和一«thing»",
        "«surname»家«quality»那«thing»",
    ],
    "person": [
        "«temper»«role»",
        "«surname»«given_name»",
        "老«surname»",
        "«town»的«role»",
        "«role»«surname»«given_name»",
        "«friend»",
        "那位«temper»«role»",
    ],
    "where": ["在«spot»", "在«town»的«spot»", "从«town»回来", "离«town»不远", "路过«spot»", "站在«spot»"],
    "speech": [
        "«person»«did»«object»，你知道吗？",
        "别«treat»«person»，先去«spot»看看。",
        "«event»以后，谁还会«treat»«role»呢？",
        "我«where»«did»«object»，就不后悔。",
        "«idea»能当饭吃吗？",
        "要是«time»还没有消息，就去«town»找«person»。",
        "那«thing»是«surname»家的，不是«surname»家的。",
    ],
    "story": [
        "«time»，«hero»«where»«manner»«did»«object»。",
        "«weather»笼罩着«home»，«person»«where»，谁也不愿«treat»。",
        "“«speech»”«person»«manner»说。",
        "«ta»本想«treat»«person»，可是«event»打乱了一切。",
        "«hero»没有回答，只是«manner»«did»«object»。",
        "听说«person»«time»«did»«object»，连«person»也吃了一惊。",
        "“«speech»”«hero»问道，“«speech»”",
        "«spot»里摆着一«thing»，旁边是«quality»«role»画像和一«thing»。",
        "如果当年«person»肯«treat»«ta»，«object»就不会流落到«town»。",
        "«time»«weather»来了，«person»«manner»往«spot»走去。",
        "谁也说不清«person»为什么要«treat»«role»，又为什么«did»«object»。",
        "«hero»想起«event»那年，«person»«where»«did»«object»。",
        "«friend»从不«treat»人，这一次却«manner»«did»«object»。",
        "«count»天过去了，«object»还在«spot»，«person»却已经去了«town»。",
        "比起«idea»，«ta»更相信«idea»，所以«manner»«did»«object»。",
    ],
    "letter": [
        "来信«time»收到，随信寄来的那«thing»也已«manner»«did»。",
        "«home»近来多«weather»，«person»«did»«object»，一切都好。",
        "你问起«person»，他«event»之后就去了«town»，临走«did»«object»。",
        "若路过«spot»，请代我«treat»«person»。",
        "家里那«thing»，«person»«time»«did»，我没有«treat»他。",
        "我«time»去了«town»，«where»遇见«person»，谈起«idea»，也谈起«idea»。",
        "«friend»托我问候你，还«did»«object»。",
        "记得«event»那天，«person»«manner»«did»«object»吗？",
        "信纸不够了，余下的话等«month»«where»再说。",
    ],
    "report": [
        "受«cause»影响，«town»«trade»行业«month»的«metric»下降«percent»，«metric»上升«percent»。",
        "«year»«month»，«surname»氏«trade»公司的«metric»达到«amount»，主要得益于«cause»。",
        "负责人«surname»«given_name»表示，«cause»与«cause»是«metric»变化的主要原因。",
        "调查显示，«share»的«trade»企业担心«cause»，«share»的企业担心«cause»。",
        "与«year»相比，«town»的«metric»增长«percent»，而«town»的«metric»减少«percent»。",
        "«town»计划在«month»前投入«amount»，用于降低«metric»并改善«metric»。",
        "审计人员在«town»分公司发现«count»处差错，涉及«metric»«amount»。",
        "如果没有«cause»，«trade»企业的«metric»还会提高«percent»。",
        "«surname»«given_name»建议先处理«cause»，«month»再讨论«metric»。",
        "«metric»连续«count»个月好转，但«cause»仍使«town»的«metric»承压。",
    ],
    "reflection": [
        "人们常说«idea»来自«idea»，其实«idea»也可能来自«idea»。",
        "没有«idea»的«idea»，就像«spot»里«quality»那«thing»。",
        "«town»的«role»懂得，«manner»«treat»一个人，胜过空谈«idea»。",
        "«year»的«event»之后，«idea»和«idea»在«town»换了位置。",
        "«person»以为那是«idea»，«person»却说那不过是«idea»。",
        "真正的«idea»，往往«where»才看得见。",
        "«role»若«did»«object»，便不再需要«idea»。",
        "«surname»先生在«year»写道：«idea»应当«treat»«idea»，«surname»先生不以为然。",
        "一«thing»值多少钱，要看«idea»，也要看«event»那天的«weather»。",
        "从«spot»到«spot»，不过几步路，从«idea»到«idea»，却要走一生。",
    ],
    "request": [
        "请接着写这个故事，要有对话和景物描写，写几个段落。主人公«hero»是«home»«temper»«role»，«time»，«friend»«did»«object»，两人«where»相遇。",
        "请写一篇短篇小说，地点是«home»，时间是«time»。«hero»是一位«temper»«role»，«ta»«did»«object»，结尾时«friend»«where»«treat»«ta»。不要用小标题。",
        "请以«hero»的口吻给«friend»写一封长信，谈谈«event»，谈谈«person»，再说说«object»的下落。«hero»是«home»的«role»，语气要亲切自然。",
        "请写一部长篇小说的第一章，主题是«idea»与«idea»。主人公«hero»是«temper»«role»，开头写«weather»和«spot»，«friend»想要«object»。",
    ],
    "opening": [
        "«time»，«weather»还没有散去，«hero»",
        "«event»那天，«hero»«where»，",
        "«home»的«spot»里放着一«thing»，«hero»",
        "«hero»已经很久没有想起«event»了，",
    ],
}
_GRAMMAR = Grammar(_RULES, given=_CAST)
_REGISTERS = ("story", "story", "letter", "report", "reflection")


def _cast(dice: Dice) -> dict[str, str]:
    return {
        "hero": dice.pick(w.SURNAMES) + dice.pick(w.GIVEN),
        "ta": "她" if dice.chance(0.5) else "他",
        "friend": dice.pick(w.SURNAMES) + dice.pick(w.GIVEN),
        "home": dice.pick(w.PLACE_STARTS) + dice.pick(w.PLACE_ENDS),
    }


def block(dice: Dice) -> str:
    """A paragraph of four to seven sentences."""
    register, cast = dice.pick(_REGISTERS), _cast(dice)
    return "".join(_GRAMMAR.several(register, dice, dice.between(4, 7), cast))


def task(dice: Dice) -> Task:
    """A story or letter to write, and its first words."""
    cast = _cast(dice)
    return Task(_GRAMMAR.expand("request", dice, cast), _GRAMMAR.expand("opening", dice, cast))
