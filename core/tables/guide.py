"""The text of the page Method and limits as data: definitions, limits, glossary and practice questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from .frame import frame


@dataclass(frozen=True)
class Definition:
    """A paragraph of the page and the formula that it explains, in TeX."""

    title: str
    text: str
    formula: str


@dataclass(frozen=True)
class Question:
    """A practice question, with the page and the settings that its link opens."""

    text: str
    page: str
    query: Mapping[str, str] = field(default_factory=dict)


DEFINITIONS = (
    Definition(
        "The residual stream",
        "A block adds twice to the stream: after attention and after the feed-forward. With the input, L blocks have "
        "2L + 1 residual sites, counted from 0. Site 2L is the last state before the final norm and the head.",
        r"x_{s+1}=x_s+F_s(N(x_s)),\qquad s=0,\dots,2L-1",
    ),
    Definition(
        "The size of a site",
        "The root mean square over all valid positions (n of them) and all D features, computed by selection in "
        "float64 and safe from overflow. Padding and masked positions are left out, not multiplied by zero.",
        r"A_s=\sqrt{\frac{1}{nD}\sum_{p\ \text{valid}}\sum_{i=1}^{D}x_{s,p,i}^2}",
    ),
    Definition(
        "The sensitivity of a site",
        "The same root mean square of the derivative of the mean loss with respect to the state, all later paths "
        "summed. The loss is the mean over valid targets in nats, so an absolute adjoint has the unit nats per unit of "
        "state and depends on that reduction and on the number of targets.",
        r"G_s=\operatorname{RMS}\!\left(\frac{\partial\,\mathcal{L}}{\partial x_s}\right),\qquad "
        r"{\mathcal{L}=-\frac{1}{n}\sum_{p\ \text{valid}}\log q_p(t_p)}",
    ),
    Definition(
        "Ratios and band",
        "Activations are compared with the input, adjoints with the last site; both ratios are dimensionless. The band "
        "includes both ends and judges unrounded values. A normalizer that is zero or not finite is refused: nothing "
        "is added to make a ratio finite.",
        r"\frac{A_s}{A_0},\quad\frac{G_s}{G_{2L}}\in[0.01,\,100]",
    ),
    Definition(
        "The depth factor",
        "The depth-scaled recipe multiplies two matrices a block, attention output and feed-forward down, once at "
        "initialization. L counts complete blocks, not additions. Everything else keeps its base draw, and the control "
        "is that base draw without the factor. The forward applies no further factor, so a gradient is with respect to "
        "the stored weight.",
        r"W_{\text{stored}}=\alpha\,W_{\text{base}},\qquad\alpha=L^{-1/2}",
    ),
    Definition(
        "Why that factor",
        "A sum of 2L independent increments of equal variance keeps a variance that does not grow with L when each is "
        "multiplied by the factor. Real branches read a shared stream and are correlated, so this motivates the factor "
        "and proves nothing of a decoder: that is what the observations are for.",
        r"\operatorname{Var}\Big(\sum_{k=1}^{2L}\alpha r_k\Big)=2L\,\alpha^2\sigma^2=2\sigma^2",
    ),
    Definition(
        "Contributions",
        "A contribution is what the stream gains at an addition, after coefficient and output norm. Its ratio to the "
        "stream says how much an addition changes what it is added to; its cosine says whether it points along it.",
        r"\frac{\operatorname{RMS}(\text{contribution})}{\operatorname{RMS}(\text{stream})}",
    ),
)

ESTABLISHES = (
    "They establish what this decoder, with this seed, batch, depth and floating type, holds before any training step.",
    "Equal ratios do not mean equal absolute sizes: two decoders within the band can differ in every absolute adjoint.",
    "A ratio within the band does not establish convergence, and one outside it does not prove failure.",
    "One seed is one draw: a sweep over seeds and depths says how far a finding carries.",
    "The unscaled control shares the base draw with the recipe's arm, so their difference is the recipe's alone.",
    "A loss near the logarithm of the vocabulary is what a fresh decoder should have; it says nothing of its depth.",
    "The plan is arithmetic. It builds and measures nothing; the page Health does.",
)

PRACTICE = (
    Question(
        "Eight blocks have seventeen sites, and yet the factor is one over the root of eight. Which sites are counted "
        "once, though two blocks share them?",
        "residual_health",
        {"blocks": "8"},
    ),
    Question(
        "At one block both arms agree to the last bit. Why must they, and what does the recipe select all the same?",
        "residual_health",
        {"blocks": "1", "view": "The block"},
    ),
    Question(
        "At thirty-two narrow blocks the unscaled decoder leaves the band. At which site first, and what mends it?",
        "residual_health",
        {"blocks": "32", "recipe": "unscaled", "view": "Mend it"},
    ),
    Question(
        "Every published control lies within the band too. What do the largest ratios say, and what not?",
        "published_fixtures",
        {"fixture": "narrow-8"},
    ),
    Question(
        "Follow the worked vector to one, two and eight blocks. By what does its variance change, and why does its "
        "twin stay as it is?",
        "initialization",
        {"fan_in": "4", "fan_out": "4", "init_blocks": "8"},
    ),
    Question(
        "y = 2 w: what is the derivative with respect to the stored weight, and with respect to the base weight?",
        "initialization",
        {"init_blocks": "8"},
    ),
    Question(
        "Which of the supplied ratios lie above and below the band, and what becomes of those on its very ends?",
        "bands",
        {},
    ),
    Question(
        "What does the plan know of its decoder, and what can only a run tell?",
        "laptop_plan",
        {},
    ),
)

GLOSSARY: Mapping[str, str] = {
    "activation ratio": "A site's RMS over that of the input",
    "addition": "One step of the stream: the shortcut term plus what its branches contribute",
    "adjoint": "Derivative of the mean loss with respect to a residual state, all paths summed",
    "adjoint ratio": "A site's adjoint RMS over that of the last site",
    "arm": "One recipe on a base draw",
    "band": "The inclusive limits that ratios are judged by, on unrounded values",
    "base draw": "The weights before any recipe, from one seed",
    "block": "A complete decoder block, attention and feed-forward; depth L counts blocks",
    "contribution": "What an addition adds to the stream, after coefficient and output norm",
    "control": "The unscaled pre-norm arm of the same base draw",
    "factor": "The one coefficient common to all selected tensors, where there is one",
    "normalizer": "The value a ratio divides by: the input's RMS, or the last site's adjoint RMS",
    "raw": "A branch's own output, before coefficient and output norm",
    "recipe": "A named graph and laws on stored weights, applied once at initialization",
    "site": "A place on the residual stream: the input and the state after every addition",
    "stream": "The shortcut term that a contribution is added to",
    "valid": "A position that counts in the loss and in the statistics",
    "writer": "The matrix that ends a branch: attention output, feed-forward down",
}


def glossary_table(text: str = "") -> pd.DataFrame:
    """Return the words whose row contains `text`, ignoring case, as a table with the columns `word` and `meaning`."""
    wanted = text.strip().casefold()
    rows = [
        {"word": word, "meaning": meaning}
        for word, meaning in GLOSSARY.items()
        if wanted in f"{word}\n{meaning}".casefold()
    ]
    return frame(rows, ("word", "meaning"))
