"""Checklist of reviewers' questions about labels by a language model, with answers.

The items are based on published guidelines (`ASKED_BY`), in this project's words. An item
is answered only from recorded data; all other items are open, for the author to answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.core.words import call
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
        answer: Answer from the data; for an open item, the information to add.
        is_open: True if the data do not answer the question.
        sources: Citations of the guidelines that ask the question, such as "Gallifant et
            al. 2025"; () for an addition of this project.
    """

    question: str
    answer: str
    is_open: bool
    sources: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """State of the item: "answered" or "open"."""
        return OPEN if self.is_open else "answered"


class _Calls(dict[str, str]):
    """Mapping of the name of each function to how the caller runs it."""

    def __missing__(self, function: str) -> str:
        return call(function)


def checklist_of(contents: Contents) -> list[ChecklistItem]:
    """Answer the checklist from a report's content."""
    items = []
    for question, answer, to_do, asked_by in _ITEMS:
        found = None if answer is None else answer(contents)
        items.append(
            ChecklistItem(
                question,
                to_do.format_map(_Calls()) if found is None else found,
                not found,
                tuple(REFERENCES[_KEYS[letter]].short for letter in asked_by),
            )
        )
    return items


# Question; function that answers it from the data, or None for an item that is always
# open; information to add if it is open, with functions in braces; letters of the
# guidelines that ask it.
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
        "Do the texts contain the information that the codebook asks for?",
        None,
        "Describe the information in the texts, and the context that they lack.",
        "F",
    ),
    (
        "Which texts: source, period, selection?",
        None,
        "Describe the source of the texts, and the texts that were left out.",
        "R",
    ),
    (
        "Which agreement is sufficient for the analysis, and was it set before coding?",
        None,
        "State the level, the reason for it, and the date when you set it.",
        "F",
    ),
    (
        "Were model, codebook and analysis registered before the results were known?",
        None,
        "Cite the registration, or state that there is none.",
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
    ("Was each text coded independently of the other texts?", of_coding.alone, "", "G"),
    (
        "Which settings: sampling, seed, calibration?",
        of_coding.settings,
        "",
        "TFGRAS",
    ),
    (
        "Do labels differ between runs?",
        of_coding.varies,
        "Code with several seeds, as {robustness} does, and report the agreement.",
        "TFAS",
    ),
    ("Which software, hardware and date?", of_coding.versions, "", "FGRS"),
    (
        "How much computing time was needed?",
        of_coding.computing,
        "State the time and the machine.",
        "GRS",
    ),
    (
        "Can others get the same labels?",
        of_coding.reproduced,
        "Code with deterministic=True, or show that a second run gives the same labels.",
        "TFA",
    ),
    (
        "Are texts and labels available?",
        of_coding.shared,
        "Say where the texts are available, or why they are not.",
        "RS",
    ),
    (
        "Are code, codebook and results in an archive, with a DOI?",
        None,
        "Deposit your script, the codebook and this report, and give the DOI.",
        "FGRS",
    ),
    ("How many texts have no label?", of_coding.missing, "", "R"),
    ("Were the model's labels changed afterwards?", of_coding.edited, "", "G"),
    (
        "How many texts did people code?",
        of_people.gold,
        "Let people code some texts, then {validate}.",
        "TFGRB",
    ),
    (
        "How were these texts drawn?",
        of_people.drawn,
        "Draw the texts with {gold_sample}, or describe the draw.",
        "F",
    ),
    (
        "How many codes does the rarest label have?",
        of_people.rarest,
        "Let people code texts of each label, then {validate}.",
        "TFR",
    ),
    (
        "Did people code without seeing the model's labels?",
        of_people.blind,
        "State whether they did; {write_gold} omits the model's labels by default.",
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
        "Does the model agree with people as often as people agree with each other?",
        of_people.ceiling,
        "Let at least two people code the same texts, then {validate}.",
        "TF",
    ),
    (
        "How good are the labels, overall and for each label, with intervals?",
        of_people.accuracy,
        "{validate} computes it.",
        "TFGRS",
    ),
    (
        "Which errors are most frequent?",
        of_people.errors,
        "Read the disagreements, and describe the types of errors.",
        "TFS",
    ),
    (
        "Do the probabilities of labels equal the shares of right labels?",
        of_people.sure,
        "{validate} computes the calibration error from the probabilities of the labels.",
        "",
    ),
    (
        "Against which baseline?",
        of_people.baseline,
        "{validate} computes it.",
        "GRS",
    ),
    (
        "Do errors differ between groups that the analysis compares?",
        of_people.errors_by_group,
        "Use {estimate} with the codes, or validate within the groups.",
        "TFG",
    ),
    (
        "How many prompts and models were tried?",
        of_people.tried,
        "State all prompts and models; {compare_codebooks} records its candidates.",
        "FRB",
    ),
    (
        "Are the prompt's examples excluded from the texts that measure its accuracy?",
        of_coding.examples,
        "Choose examples from other texts, as {choose_examples} does.",
        "F",
    ),
    (
        "Was the chosen codebook measured on texts that were not used to choose it?",
        of_people.apart,
        "Use {gold_split} and {evaluate_codebook}.",
        "TF",
    ),
    (
        "Do results hold for other wordings, models or seeds?",
        of_people.robust,
        "{robustness} codes variants.",
        "TAB",
    ),
    (
        "Are results corrected for errors of the labels?",
        of_people.corrected,
        "Use {estimate}.",
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
        "Which limitations does the measurement have?",
        None,
        "Name each limitation, and describe how you addressed it.",
        "S",
    ),
    (
        "Who funded the study, and are there competing interests?",
        None,
        "Name the funders and the competing interests, or state that there are none.",
        "GR",
    ),
)
