"""References of methods and codebooks, as BibTeX and in words.

Reports cite a reference only if its method was used. A test checks that keys and DOIs are
unique.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reference:
    """A published work.

    Attributes:
        key: Key in BibTeX.
        kind: Type of the entry, such as "article".
        authors: Names of authors as "Family, Given", in order; () if unknown.
        year: Year of publication.
        title: Title.
        where: Other fields of the entry, by name, such as journal, pages and doi.
    """

    key: str
    kind: str
    authors: tuple[str, ...]
    year: int
    title: str
    where: dict[str, str]

    @property
    def short(self) -> str:
        """Citation with authors and year: "Egami et al. 2023"."""
        names = [each.partition(",")[0] for each in self.authors]
        if len(names) > 2:
            return f"{names[0]} et al. {self.year}"
        return f"{' and '.join(names) or self.title} {self.year}"

    @property
    def bibtex(self) -> str:
        """Entry for a BibTeX file."""
        fields = {
            **({"author": " and ".join(self.authors)} if self.authors else {}),
            "title": f"{{{self.title}}}",
            "year": str(self.year),
            **self.where,
        }
        lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


def _article(
    key: str, authors: tuple[str, ...], year: int, title: str, **where: str
) -> Reference:
    return Reference(key, "article", authors, year, title, where)


def _proceedings(
    key: str, authors: tuple[str, ...], year: int, title: str, **where: str
) -> Reference:
    return Reference(key, "inproceedings", authors, year, title, where)


_ALL = (
    # ---- estimates
    _proceedings(
        "egami2023",
        ("Egami, Naoki", "Hinck, Musashi", "Stewart, Brandon M.", "Wei, Hanying"),
        2023,
        "Using Imperfect Surrogates for Downstream Inference: Design-based Supervised "
        "Learning for Social Science Applications of Large Language Models",
        booktitle="Advances in Neural Information Processing Systems",
        volume="36",
    ),
    _article(
        "angelopoulos2023",
        ("Angelopoulos, Anastasios N.", "Duchi, John C.", "Zrnic, Tijana"),
        2023,
        "PPI++: Efficient Prediction-Powered Inference",
        journal="arXiv:2311.01453",
        doi="10.48550/arXiv.2311.01453",
    ),
    _article(
        "zrnic2024",
        ("Zrnic, Tijana", "Cand{\\`e}s, Emmanuel J."),
        2024,
        "Cross-Prediction-Powered Inference",
        journal="Proceedings of the National Academy of Sciences",
        volume="121",
        number="15",
        pages="e2322083121",
        doi="10.1073/pnas.2322083121",
    ),
    _proceedings(
        "zrnic2024active",
        ("Zrnic, Tijana", "Cand{\\`e}s, Emmanuel J."),
        2024,
        "Active Statistical Inference",
        booktitle="Proceedings of the 41st International Conference on Machine Learning",
        eprint="2403.03208",
        archiveprefix="arXiv",
    ),
    _article(
        "dawid1979",
        ("Dawid, A. P.", "Skene, A. M."),
        1979,
        "Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm",
        journal="Applied Statistics",
        volume="28",
        number="1",
        pages="20--28",
        doi="10.2307/2346806",
    ),
    Reference(
        "rubin1987",
        "book",
        ("Rubin, Donald B.",),
        1987,
        "Multiple Imputation for Nonresponse in Surveys",
        {"publisher": "Wiley", "doi": "10.1002/9780470316696"},
    ),
    # ---- agreement, intervals, calibration
    _article(
        "cohen1960",
        ("Cohen, Jacob",),
        1960,
        "A Coefficient of Agreement for Nominal Scales",
        journal="Educational and Psychological Measurement",
        volume="20",
        number="1",
        pages="37--46",
        doi="10.1177/001316446002000104",
    ),
    _article(
        "gwet2008",
        ("Gwet, Kilem Li",),
        2008,
        "Computing Inter-Rater Reliability and Its Variance in the Presence of High "
        "Agreement",
        journal="British Journal of Mathematical and Statistical Psychology",
        volume="61",
        number="1",
        pages="29--48",
        doi="10.1348/000711006X126600",
    ),
    _article(
        "hayes2007",
        ("Hayes, Andrew F.", "Krippendorff, Klaus"),
        2007,
        "Answering the Call for a Standard Reliability Measure for Coding Data",
        journal="Communication Methods and Measures",
        volume="1",
        number="1",
        pages="77--89",
        doi="10.1080/19312450709336664",
    ),
    _proceedings(
        "zhou2024",
        (
            "Zhou, Han",
            "Wan, Xingchen",
            "Proleev, Lev",
            "Mincu, Diana",
            "Chen, Jilin",
            "Heller, Katherine",
            "Roy, Subhrajit",
        ),
        2024,
        "Batch Calibration: Rethinking Calibration for In-Context Learning and Prompt "
        "Engineering",
        booktitle="International Conference on Learning Representations",
    ),
    _proceedings(
        "zhao2021",
        (
            "Zhao, Zihao",
            "Wallace, Eric",
            "Feng, Shi",
            "Klein, Dan",
            "Singh, Sameer",
        ),
        2021,
        "Calibrate Before Use: Improving Few-Shot Performance of Language Models",
        booktitle="Proceedings of the 38th International Conference on Machine Learning",
        pages="12697--12706",
    ),
    # ---- codebooks
    _proceedings(
        "rosenthal2017",
        ("Rosenthal, Sara", "Farra, Noura", "Nakov, Preslav"),
        2017,
        "SemEval-2017 Task 4: Sentiment Analysis in Twitter",
        booktitle="Proceedings of the 11th International Workshop on Semantic Evaluation",
        pages="502--518",
        doi="10.18653/v1/S17-2088",
    ),
    _proceedings(
        "mohammad2016",
        (
            "Mohammad, Saif",
            "Kiritchenko, Svetlana",
            "Sobhani, Parinaz",
            "Zhu, Xiaodan",
            "Cherry, Colin",
        ),
        2016,
        "SemEval-2016 Task 6: Detecting Stance in Tweets",
        booktitle="Proceedings of the 10th International Workshop on Semantic Evaluation",
        pages="31--41",
        doi="10.18653/v1/S16-1003",
    ),
    Reference(
        "baumgartner2019",
        "book",
        ("Baumgartner, Frank R.", "Breunig, Christian", "Grossman, Emiliano"),
        2019,
        "Comparative Policy Agendas: Theory, Tools, Data",
        {"publisher": "Oxford University Press"},
    ),
    _article(
        "mudde2004",
        ("Mudde, Cas",),
        2004,
        "The Populist Zeitgeist",
        journal="Government and Opposition",
        volume="39",
        number="4",
        pages="541--563",
        doi="10.1111/j.1477-7053.2004.00135.x",
    ),
    _article(
        "hawkins2009",
        ("Hawkins, Kirk A.",),
        2009,
        "Is Ch{\\'a}vez Populist? Measuring Populist Discourse in Comparative "
        "Perspective",
        journal="Comparative Political Studies",
        volume="42",
        number="8",
        pages="1040--1067",
        doi="10.1177/0010414009331721",
    ),
    _proceedings(
        "wulczyn2017",
        ("Wulczyn, Ellery", "Thain, Nithum", "Dixon, Lucas"),
        2017,
        "Ex Machina: Personal Attacks Seen at Scale",
        booktitle="Proceedings of the 26th International Conference on World Wide Web",
        pages="1391--1399",
        doi="10.1145/3038912.3052591",
    ),
    _article(
        "davidson2017",
        ("Davidson, Thomas", "Warmsley, Dana", "Macy, Michael", "Weber, Ingmar"),
        2017,
        "Automated Hate Speech Detection and the Problem of Offensive Language",
        journal="Proceedings of the International AAAI Conference on Web and Social "
        "Media",
        volume="11",
        number="1",
        pages="512--515",
        doi="10.1609/icwsm.v11i1.14955",
    ),
    _article(
        "coe2014",
        ("Coe, Kevin", "Kenski, Kate", "Rains, Stephen A."),
        2014,
        "Online and Uncivil? Patterns and Determinants of Incivility in Newspaper "
        "Website Comments",
        journal="Journal of Communication",
        volume="64",
        number="4",
        pages="658--679",
        doi="10.1111/jcom.12104",
    ),
    _article(
        "ekman1992",
        ("Ekman, Paul",),
        1992,
        "An Argument for Basic Emotions",
        journal="Cognition and Emotion",
        volume="6",
        number="3--4",
        pages="169--200",
        doi="10.1080/02699939208411068",
    ),
    _article(
        "semetko2000",
        ("Semetko, Holli A.", "Valkenburg, Patti M."),
        2000,
        "Framing European Politics: A Content Analysis of Press and Television News",
        journal="Journal of Communication",
        volume="50",
        number="2",
        pages="93--109",
        doi="10.1111/j.1460-2466.2000.tb02843.x",
    ),
    _article(
        "benoit2016",
        (
            "Benoit, Kenneth",
            "Conway, Drew",
            "Lauderdale, Benjamin E.",
            "Laver, Michael",
            "Mikhaylov, Slava",
        ),
        2016,
        "Crowd-sourced Text Analysis: Reproducible and Agile Production of Political "
        "Data",
        journal="American Political Science Review",
        volume="110",
        number="2",
        pages="278--295",
        doi="10.1017/S0003055416000058",
    ),
    # ---- checklists of reporting
    _article(
        "tornberg2024",
        ('T{\\"o}rnberg, Petter',),
        2024,
        "Best Practices for Text Annotation with Large Language Models",
        journal="Sociologica",
        volume="18",
        number="2",
        pages="67--85",
        doi="10.6092/issn.1971-8853/19461",
    ),
    Reference(
        "guide2026",
        "misc",
        (),
        2026,
        "A Methodological Guide on Using Large Language Models for Reproducible Text "
        "Annotation in the Social Sciences and Humanities with Python and R",
        {"eprint": "2604.09638", "archiveprefix": "arXiv"},
    ),
)

REFERENCES = {each.key: each for each in _ALL}
