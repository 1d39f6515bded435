"""References of methods: estimates, agreement, calibration."""

from __future__ import annotations

from llamaherd.research.references.published import Reference, article, proceedings

METHODS = (
    # ---- estimates
    proceedings(
        "egami2023",
        ("Egami, Naoki", "Hinck, Musashi", "Stewart, Brandon M.", "Wei, Hanying"),
        2023,
        "Using Imperfect Surrogates for Downstream Inference: Design-based Supervised "
        "Learning for Social Science Applications of Large Language Models",
        booktitle="Advances in Neural Information Processing Systems",
        volume="36",
    ),
    Reference(
        "egami2024",
        "unpublished",
        ("Egami, Naoki", "Hinck, Musashi", "Stewart, Brandon M.", "Wei, Hanying"),
        2024,
        "Using Large Language Model Annotations for the Social Sciences: A General "
        "Framework of Using Predicted Variables in Downstream Analyses",
        {
            "note": "Working paper, November 17, 2024",
            "url": "https://naokiegami.com/paper/dsl_ss.pdf",
        },
    ),
    article(
        "angelopoulos2023",
        ("Angelopoulos, Anastasios N.", "Duchi, John C.", "Zrnic, Tijana"),
        2023,
        "PPI++: Efficient Prediction-Powered Inference",
        journal="arXiv:2311.01453",
        doi="10.48550/arXiv.2311.01453",
    ),
    Reference(
        "zrnic2024",
        "article",
        ("Zrnic, Tijana", "Cand{\\`e}s, Emmanuel J."),
        2024,
        "Cross-Prediction-Powered Inference",
        {
            "journal": "Proceedings of the National Academy of Sciences",
            "volume": "121",
            "number": "15",
            "pages": "e2322083121",
            "doi": "10.1073/pnas.2322083121",
        },
        letter="a",
    ),
    Reference(
        "zrnic2024active",
        "inproceedings",
        ("Zrnic, Tijana", "Cand{\\`e}s, Emmanuel J."),
        2024,
        "Active Statistical Inference",
        {
            "booktitle": "Proceedings of the 41st International Conference on Machine "
            "Learning",
            "eprint": "2403.03208",
            "archiveprefix": "arXiv",
        },
        letter="b",
    ),
    proceedings(
        "farquhar2021",
        ("Farquhar, Sebastian", "Gal, Yarin", "Rainforth, Tom"),
        2021,
        "On Statistical Bias In Active Learning: How and When To Fix It",
        booktitle="International Conference on Learning Representations",
        eprint="2101.11665",
        archiveprefix="arXiv",
    ),
    article(
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
    article(
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
    article(
        "cohen1968",
        ("Cohen, Jacob",),
        1968,
        "Weighted Kappa: Nominal Scale Agreement with Provision for Scaled Disagreement "
        "or Partial Credit",
        journal="Psychological Bulletin",
        volume="70",
        number="4",
        pages="213--220",
        doi="10.1037/h0026256",
    ),
    article(
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
    article(
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
    proceedings(
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
    proceedings(
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
)
