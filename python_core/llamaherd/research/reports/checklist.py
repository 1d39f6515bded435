"""Checklist of what reviewers ask of labels by a language model, answered from the data.

The items are in this project's words, after published guidelines (`ASKED_BY`). An item is
answered only by what is recorded; all others are open, for the author to answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.research.references import GUIDELINES, REFERENCES
from llamaherd.research.reports import checklist_answers as of_coding
from llamaherd.research.reports import checklist_people as of_people

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.research.reports.report_data import Contents

OPEN = "open"
# The guidelines, in the order of their numbers in a report.
ASKED_BY: tuple[str, ...] = tuple(each.key for each in GUIDELINES)
# Abbreviations of the guidelines in the list of items.
_KEYS = {
    "T": "tornberg2024",
    "F": "fang2026",
    "G": "feuerriegel2026",
    "R": "gallifant2025",
    "A": "abdurahman2025",
    "S": "baltes2025",
    "B": "baumann2025",
}


@dataclass(frozen=True, slots=True)
class ChecklistItem:
    """Item of the checklist.

    Attributes:
        question: Question of a reviewer.
        answer: Answer from the data; for an open item what to add.
        is_open: True if the data do not answer it.
        sources: Guidelines that ask it, in short, such as "Gallifant et al. 2025"; ()
            for an addition of this project.
    """

    question: str
    answer: str
    is_open: bool
    sources: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """State of the item: "answered" or "open"."""
        return OPEN if self.is_open else "answered"


def checklist_of(contents: Contents) -> list[ChecklistItem]:
    """Answer the checklist from a report's content."""
    items = []
    for question, answer, to_do, asked_by in _ITEMS:
        found = None if answer is None else answer(contents)
        items.append(
            ChecklistItem(
                question,
                to_do if found is None else found,
                not found,
                tuple(REFERENCES[_KEYS[letter]].short for letter in asked_by),
            )
        )
    return items


# Question; answer from the data; what to add if it is open; who asks it. An item without
# an answer is always open.
_ITEMS: tuple[tuple[str, Callable[[Contents], str | None] | None, str, str], ...] = (
    (
        "Why a language model, and this one?",
        None,
        "Give your reasons, and alternatives that you considered.",
        "TGRAS",
    ),
    (
        "Is the concept defined, and is the definition grounded in theory?",
        of_coding.concept,
        "Refer to the definition that the codebook follows.",
        "TFR",
    ),
    (
        "Do the texts contain what is to be measured?",
        None,
        "Say what the texts can show, and what needs knowledge that they do not have.",
        "F",
    ),
    (
        "Which texts: source, period, selection?",
        None,
        "Describe where the texts come from, and which were left out.",
        "R",
    ),
    (
        "Which agreement suffices for the analysis, and was it set before coding?",
        None,
        "State the level, why it suffices, and when you set it.",
        "F",
    ),
    (
        "Were model, codebook and analysis registered before results were known?",
        None,
        "Give the registration, or say that there is none.",
        "RB",
    ),
    (
        "Which model exactly, and is its file identified?",
        of_coding.model,
        "Name the file and its SHA-256.",
        "TFGRAS",
    ),
    ("Was the model fine-tuned or changed?", of_coding.changed_model, "", "TGRS"),
    (
        "Are prompt, labels, definitions and examples given in full?",
        of_coding.prompt,
        "",
        "TFGRAS",
    ),
    ("Was each text coded on its own?", of_coding.alone, "", "G"),
    (
        "Which settings: sampling, seed, calibration?",
        of_coding.settings,
        "",
        "TFGRAS",
    ),
    (
        "Do labels vary from run to run?",
        of_coding.varies,
        "Code with several seeds, as robustness() does, and report how far labels agree.",
        "TFAS",
    ),
    ("Which software, hardware and date?", of_coding.versions, "", "FGRS"),
    (
        "How much computing did it take?",
        of_coding.computing,
        "State the time and the machine.",
        "GRS",
    ),
    (
        "Can others get the same labels?",
        of_coding.reproduced,
        "Code with deterministic=True, or show that labels hold when it is run again.",
        "TFA",
    ),
    (
        "Are texts and labels available?",
        of_coding.shared,
        "Say where the texts can be had, or why not.",
        "RS",
    ),
    (
        "Are code, codebook and results archived where they can be cited?",
        None,
        "Deposit your script, the codebook and this report, and give the DOI.",
        "FGRS",
    ),
    ("How many texts have no label?", of_coding.missing, "", "R"),
    ("Were labels changed after the model gave them?", of_coding.edited, "", "G"),
    (
        "How many texts did people code?",
        of_people.gold,
        "Let people code some, then validate().",
        "TFGRB",
    ),
    (
        "How were these texts drawn?",
        of_people.drawn,
        "Draw them with gold_sample(), or describe the draw.",
        "F",
    ),
    (
        "How many codes has the rarest label?",
        of_people.rarest,
        "Let people code some texts of each label, then validate().",
        "TFR",
    ),
    (
        "Did people code without seeing the model's labels?",
        of_people.blind,
        "State it; write_gold() leaves them out by default.",
        "",
    ),
    (
        "Who coded, with which training and pay?",
        None,
        "Describe the coders and how they were instructed.",
        "RS",
    ),
    (
        "How far do people agree with each other?",
        of_people.people,
        "Let at least two people code the same texts.",
        "TFRS",
    ),
    (
        "Does the model agree with people as well as people do with each other?",
        of_people.ceiling,
        "Let at least two people code the same texts, then validate().",
        "TF",
    ),
    (
        "How good are the labels, overall and for each label, with intervals?",
        of_people.accuracy,
        "validate() computes it.",
        "TFGRS",
    ),
    (
        "Which errors are most frequent?",
        of_people.errors,
        "Read the disagreements, and describe the kinds of errors.",
        "TFS",
    ),
    (
        "Do the probabilities of labels equal how often they are right?",
        of_people.sure,
        "validate() computes it from the probabilities of the labels.",
        "",
    ),
    (
        "Against which baseline?",
        of_people.baseline,
        "validate() computes it.",
        "GRS",
    ),
    (
        "Do errors differ between groups that the analysis compares?",
        of_people.errors_by_group,
        "Use estimate() with the codes, or validate within the groups.",
        "TFG",
    ),
    (
        "How many prompts and models were tried?",
        of_people.tried,
        "State all of them; compare_codebooks() records them.",
        "FRB",
    ),
    (
        "Are the prompt's examples apart from the texts that it was measured by?",
        of_coding.examples,
        "Choose examples from other texts, as choose_examples() does.",
        "F",
    ),
    (
        "Was the choice measured on texts that it was not made by?",
        of_people.apart,
        "gold_split() and evaluate_codebook() do that.",
        "TF",
    ),
    (
        "Do results hold for other wordings, models or seeds?",
        of_people.robust,
        "robustness() codes variants.",
        "TAB",
    ),
    (
        "Are results corrected for errors of the labels?",
        of_people.corrected,
        "estimate() does that.",
        "F",
    ),
    (
        "Could the model have seen these texts or their labels in training?",
        None,
        "Compare the date of the texts with the model's training.",
        "TFG",
    ),
    (
        "Are privacy, copyright and bias considered?",
        None,
        "The model ran locally; state the basis on which you use the texts.",
        "TGR",
    ),
    (
        "Which limits does the measurement have?",
        None,
        "Name them, and what you did about each.",
        "S",
    ),
    (
        "Who paid for the study, and does anybody have an interest in its result?",
        None,
        "State funding and competing interests.",
        "GR",
    ),
)
